import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { requestThumbnails } from '../../src/queue/thumbnail-queue.ts';
import type { CallRecord } from '../../src/simulator/call-log.ts';
import { sharp } from '../../src/thumbnail/image-library.ts';
import { metric } from '../support/metric.ts';
import { type Rig, startRig } from '../support/service.ts';
import { untilThumbnail } from '../support/thumbnails.ts';

let rig: Rig;
let athleteId: string;

beforeAll(async () => {
  rig = await startRig({ env: { FETCH_BACKOFF_BASE_MS: '20', FETCH_TIMEOUT_MS: '500' } });
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
  athleteId = await rig.connectAthlete();
});
afterAll(() => rig.close());
beforeEach(() => rig.simulator.faults.clear());

const detailCalls = (activityId: string): CallRecord[] =>
  rig.simulator.calls.filter((call) => call.activityId === activityId);

describe('a new activity at the provider', () => {
  it('is announced by a webhook, stored with every field, and drawn', async () => {
    const { id, status } = await rig.simulator.createActivityAndNotify(athleteId, {
      name: 'Morning run – “übers Moos” 🏃',
      sportType: 'Run',
      startDate: '2025-05-01T06:30:00Z',
      distanceMetres: 10_123.4,
      movingSeconds: 3001,
      elapsedSeconds: 3100,
      elevationGainMetres: 120.5,
      private: true,
    });
    expect(status).toBe(200);
    await rig.untilJob(id, (job) => job.status === 'done');
    const [activity] = await rig.service.database.query(
      `SELECT *, detail->>'id' AS detail_id FROM activity WHERE activity_id = $1`,
      [id],
    );
    expect(activity).toMatchObject({
      athlete_id: athleteId,
      name: 'Morning run – “übers Moos” 🏃',
      sport_type: 'Run',
      start_date: new Date('2025-05-01T06:30:00Z'),
      distance_m: 10_123.4,
      moving_time_s: 3001,
      elapsed_time_s: 3100,
      elevation_gain_m: 120.5,
      private: true,
      detail_id: id,
    });
    const { png } = await untilThumbnail(rig, id);
    expect(await sharp(png).metadata()).toMatchObject({ format: 'png', width: 256, height: 256 });
  });

  it('costs one detail call, with each webhook delivered three times', async () => {
    const ids = Array.from({ length: 10 }, () => rig.simulator.addActivity(athleteId).id);
    const event_time = Math.floor(Date.now() / 1000);
    const deliveries = ids.flatMap((id) => [id, id, id]);
    const answers = await Promise.all(
      deliveries.map((object_id) => rig.simulator.deliver({ object_id, owner_id: athleteId, event_time })),
    );
    expect(answers.map(({ status }) => status)).toEqual(deliveries.map(() => 200));
    for (const id of ids) {
      await rig.untilJob(id, (job) => job.outcome === 'stored');
      expect(detailCalls(id)).toHaveLength(1);
    }
    const granted = 'activity_sync_budget_grants_total{reason="webhook",result="granted"}';
    const calls = rig.simulator.calls.filter(({ activityId }) => activityId !== undefined);
    expect(await metric(rig.service.url, granted)).toBe(calls.length);
  });

  it.each(['route', 'indoor', 'manual', 'point', 'antimeridian', 'huge'] as const)(
    'is drawn whatever its route is: %s',
    async (kind) => {
      const { id } = await rig.simulator.createActivityAndNotify(athleteId, { kind });
      const { png } = await untilThumbnail(rig, id);
      expect(await sharp(png).metadata()).toMatchObject({ format: 'png', width: 256, height: 256 });
    },
  );
});

describe('an answer that does not match the provider’s API', () => {
  it.each([
    ['garbage', /not JSON/],
    ['truncated', /not JSON/],
    ['wrongType', /not JSON/],
    ['cut', /no answer \(ECONNRESET\)/],
    ['cutBody', /no answer \(ERR_HTTP_CONTENT_LENGTH_MISMATCH\)/],
    ['hang', /no answer within 500 ms/],
  ] as const)('%s: is called again, and the reason is kept', async (kind, reason) => {
    const { id } = rig.simulator.addActivity(athleteId);
    rig.simulator.faults.add({ kind, match: { activityId: id }, times: 1 });
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
    const job = await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
    expect(job).toMatchObject({ status: 'done', attempts: 1 });
    expect(detailCalls(id)).toHaveLength(2);
    const attempts = await rig.service.database.query('SELECT result, error FROM fetch_attempt WHERE job_id = $1', [
      job.id,
    ]);
    expect(attempts).toEqual([
      { result: 'retry', error: expect.stringMatching(reason) },
      { result: 'done', error: null },
    ]);
  });

  it.each([
    ['lacks what is needed', '{"id": 1}'],
    ['is null', 'null'],
    ['is empty', ''],
  ])('JSON that %s: is called again', async (_case, body) => {
    const { id } = rig.simulator.addActivity(athleteId);
    rig.simulator.faults.add({ kind: 'garbage', body, match: { activityId: id }, times: 1 });
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
    expect(await rig.untilJob(id, ({ outcome }) => outcome === 'stored')).toMatchObject({ attempts: 1 });
  });

  it('an integer beyond PostgreSQL’s: fails at once with its reason', async () => {
    const { id } = rig.simulator.addActivity(athleteId);
    const body = `{"id":${id},"athlete":{"id":${athleteId}},"start_date":"2025-01-01T00:00:00Z","moving_time":1e18}`;
    rig.simulator.faults.add({ kind: 'garbage', body, match: { activityId: id } });
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
    const job = await rig.untilJob(id, ({ status }) => status === 'failed');
    expect(job).toMatchObject({
      outcome: 'unusable',
      attempts: 0,
      error: expect.stringContaining('moving_time'),
    });
    expect(detailCalls(id)).toHaveLength(1);
  });

  it('a number beyond any type in a field that the service does not read: is stored verbatim', async () => {
    const { id } = rig.simulator.addActivity(athleteId);
    const body = `{"id":${id}, "athlete":{"id":${athleteId}}, "start_date":"2025-01-01T00:00:00Z", "elevations":[1e999999, 0.10]}`;
    rig.simulator.faults.add({ kind: 'garbage', body, match: { activityId: id } });
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
    await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
    expect(
      await rig.service.database.query('SELECT detail::text AS detail FROM activity WHERE activity_id = $1', [id]),
    ).toEqual([{ detail: body }]);
  });

  it('NUL and halves of surrogate pairs in its texts: is stored with U+FFFD, its numbers exact', async () => {
    const { id } = rig.simulator.addActivity(athleteId);
    const texts = String.raw`"name":"a\u0000b\ud83dc\\u0000\ud83d\ude00","device_name":"\udc00"`;
    const body = `{"id":${id},"athlete":{"id":${athleteId}},"start_date":"2025-01-01T00:00:00Z",${texts},"upload_id":9223372036854775807}`;
    rig.simulator.faults.add({ kind: 'garbage', body, match: { activityId: id } });
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
    await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
    const [activity] = await rig.service.database.query(
      `SELECT name, detail->>'name' AS name_in_detail, detail->>'device_name' AS device, detail->>'upload_id' AS upload_id
       FROM activity WHERE activity_id = $1`,
      [id],
    );
    const name = 'a\ufffdb\ufffdc\\u0000😀';
    expect(activity).toEqual({ name, name_in_detail: name, device: '\ufffd', upload_id: '9223372036854775807' });
  });
});

describe('a thumbnail job whose activity no longer exists', () => {
  it('ends without a picture', async () => {
    const { id } = await rig.simulator.createActivityAndNotify(athleteId);
    await untilThumbnail(rig, id);
    const { boss, database } = rig.service;
    await database.query('DELETE FROM activity WHERE activity_id = $1', [id]);
    await database.transaction((tx) => requestThumbnails(boss, tx, [id]));
    const next = await rig.simulator.createActivityAndNotify(athleteId);
    await untilThumbnail(rig, next.id); // one picture at a time: the job before it has ended
    expect(await database.query('SELECT FROM thumbnail WHERE activity_id = $1', [id])).toEqual([]);
    const states = (await boss.findJobs('thumbnail', { key: id })).map(({ state }) => state);
    expect(states).toEqual(['completed', 'completed']);
  });
});
