import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ask } from '../support/admin.ts';
import { type Rig, startRig } from '../support/service.ts';
import { untilThumbnail } from '../support/thumbnails.ts';

let rig: Rig;
let athleteId: string;

beforeAll(async () => {
  rig = await startRig();
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
  athleteId = await rig.connectAthlete('Zoë Example');
});
afterAll(() => rig.close());

async function store(fields: object = {}): Promise<string> {
  const { id } = await rig.simulator.createActivityAndNotify(athleteId, fields);
  await rig.untilJob(id, (job) => job.status === 'done');
  return id;
}
const idsOf = (rows: { id: string }[]) => rows.map(({ id }) => id);

describe('GET /api/admin/athletes', () => {
  it('shows a connected athlete with state, scope, newest activity and what waits', async () => {
    await store({ startDate: '2024-02-03T04:05:06Z' });
    const { body } = await ask(rig, 'GET', '/api/admin/athletes');
    expect(body.nextCursor).toBeNull();
    expect(body.athletes).toEqual([
      {
        id: athleteId,
        name: 'Zoë Example',
        externalId: null,
        state: 'healthy',
        stateDetail: null,
        scope: expect.stringContaining('activity:read'),
        connectedAt: expect.stringMatching(/^20.*Z$/),
        lastActivityAt: '2024-02-03T04:05:06.000Z',
        waitingJobs: 0,
        cooldownUntil: null,
      },
    ]);
    expect((await ask(rig, 'GET', `/api/admin/athletes/${athleteId}`)).body).toEqual(body.athletes[0]);
    expect((await ask(rig, 'GET', '/api/admin/athletes/404')).status).toBe(404);
  });

  it('pages in order of ids and filters by state', async () => {
    const more = [await rig.connectAthlete('Second'), await rig.connectAthlete('Third')];
    const all = [athleteId, ...more].sort((a, b) => Number(BigInt(a) - BigInt(b)));
    const first = (await ask(rig, 'GET', '/api/admin/athletes?limit=2')).body;
    const second = (await ask(rig, 'GET', `/api/admin/athletes?limit=2&cursor=${first.nextCursor}`)).body;
    expect([...idsOf(first.athletes), ...idsOf(second.athletes)]).toEqual(all);
    expect(second.nextCursor).toBeNull();
    await rig.service.database.query(`UPDATE athlete SET state = 'reconnect' WHERE athlete_id = $1`, [more[0]]);
    expect(idsOf((await ask(rig, 'GET', '/api/admin/athletes?state=reconnect')).body.athletes)).toEqual([more[0]]);
  });
});

describe('GET /api/admin/activities', () => {
  it('lists newest first, of one athlete, by a cursor that new activities do not move', async () => {
    const owner = await rig.connectAthlete('Lister');
    const days = ['2025-01-01', '2025-01-02', '2025-01-03', '2025-01-03'];
    const ids: string[] = [];
    for (const day of days) {
      const { id } = await rig.simulator.createActivityAndNotify(owner, { startDate: `${day}T10:00:00Z` });
      await rig.untilJob(id, (job) => job.status === 'done');
      ids.push(id);
    }
    const first = (await ask(rig, 'GET', `/api/admin/activities?athleteId=${owner}&limit=2`)).body;
    await rig.simulator
      .createActivityAndNotify(owner, { startDate: '2025-01-09T10:00:00Z' })
      .then(({ id }) => rig.untilJob(id, (job) => job.status === 'done'));
    const second = (
      await ask(rig, 'GET', `/api/admin/activities?athleteId=${owner}&limit=2&cursor=${first.nextCursor}`)
    ).body;
    const newestFirst = [...ids].sort((a, b) => (BigInt(b) > BigInt(a) ? 1 : -1));
    expect([...idsOf(first.activities), ...idsOf(second.activities)]).toEqual(newestFirst);
    expect(second.nextCursor).toBeNull();
    expect((await ask(rig, 'GET', '/api/admin/activities?cursor=yesterday')).body.errors[0].field).toBe('query.cursor');
  });

  it('pages through starts that differ by microseconds only', async () => {
    const owner = await rig.connectAthlete('Sprinter');
    const ids = rig.simulator.addHistory(owner, 3).map(({ id }) => id);
    for (const [n, id] of ids.entries()) {
      await ask(rig, 'POST', '/api/admin/activity-jobs', { activityId: id, athleteId: owner });
      await rig.untilJob(id, (job) => job.status === 'done');
      await rig.service.database.query(
        'UPDATE activity SET start_date = $2::text::timestamptz WHERE activity_id = $1',
        [id, `2025-01-01T10:00:00.000${9 - n}00Z`],
      );
    }
    const seen: string[] = [];
    let cursor: string | null = '';
    while (cursor !== null) {
      const query: string = `athleteId=${owner}&limit=1${cursor && `&cursor=${cursor}`}`;
      const { body } = await ask(rig, 'GET', `/api/admin/activities?${query}`);
      seen.push(...idsOf(body.activities));
      cursor = body.nextCursor;
    }
    expect(seen).toEqual(ids);
  });

  it('shows one activity with the provider’s answer letter for letter', async () => {
    const id = '9007199254740995';
    rig.simulator.addActivity(athleteId, { id, name: 'Exact', distanceMetres: 1000.5 });
    await ask(rig, 'POST', '/api/admin/activity-jobs', { activityId: id, athleteId });
    await rig.untilJob(id, (job) => job.status === 'done');
    const text = await (await rig.admin(`/api/admin/activities/${id}`)).text();
    expect(text).toContain(`"id":"${id}"`);
    const { body } = await rig.service.provider.getActivity(await rig.service.accessTokens.get(athleteId), id);
    expect(text.endsWith(`"detail":${body}}`)).toBe(true);
    expect(text).toMatch(new RegExp(`"detail":\\{.*"id":${id}[,}]`));
    expect(JSON.parse(text)).toMatchObject({ athleteId, name: 'Exact', distanceM: 1000.5, detail: { name: 'Exact' } });
    expect((await ask(rig, 'GET', '/api/admin/activities/404')).status).toBe(404);
  });

  it('shows the whole route, else the summary, else none', async () => {
    const polylineOf = async (id: string) => (await ask(rig, 'GET', `/api/admin/activities/${id}`)).body.polyline;
    const id = await store();
    const { map } = (await ask(rig, 'GET', `/api/admin/activities/${id}`)).body.detail;
    expect(await polylineOf(id)).toBe(map.polyline);
    await rig.service.database.query(
      `UPDATE activity SET detail = jsonb_set(detail::jsonb, '{map,polyline}', '""') WHERE activity_id = $1`,
      [id],
    );
    expect(await polylineOf(id)).toBe(map.summary_polyline);
    expect(await polylineOf(await store({ kind: 'indoor' }))).toBeNull();
  });

  it('serves the picture with an ETag, and 304 to a client that has it', async () => {
    const id = await store();
    await untilThumbnail(rig, id);
    const { thumbnail } = (await ask(rig, 'GET', `/api/admin/activities/${id}`)).body;
    const picture = await rig.admin(thumbnail);
    expect([picture.status, picture.headers.get('content-type')]).toEqual([200, 'image/png']);
    expect(
      Buffer.from(await picture.arrayBuffer())
        .subarray(1, 4)
        .toString(),
    ).toBe('PNG');
    const etag = picture.headers.get('etag') as string;
    const again = await rig.admin(thumbnail, { headers: { 'if-none-match': etag } });
    expect([again.status, (await again.arrayBuffer()).byteLength]).toEqual([304, 0]);
    expect((await rig.admin('/api/admin/activities/404/thumbnail')).status).toBe(404);
  });
});

describe('the ledger', () => {
  const event = (objectId: string, eventTime: number, aspect = 'update', owner = athleteId) => ({
    object_type: 'activity',
    object_id: objectId,
    aspect_type: aspect,
    owner_id: owner,
    subscription_id: rig.simulator.subscriptions[0]?.id,
    event_time: eventTime,
    updates: {},
  });
  const now = () => Math.floor(Date.now() / 1000);
  const list = async (query: string) => (await ask(rig, 'GET', `/api/admin/webhook-events?${query}`)).body.events;

  it('says how often an event was delivered, and its result', async () => {
    const id = await store();
    const at = now() + 5;
    for (let delivery = 0; delivery < 3; delivery += 1) await rig.post(event(id, at));
    await rig.post(event(id, at - 1000));
    await rig.untilJob(id, (job) => job.status === 'done');
    const events = await list(`activityId=${id}`);
    expect(events).toMatchObject([
      { aspect: 'update', result: 'stale', deliveries: 1 },
      { aspect: 'update', result: 'accepted', deliveries: 3, job: { status: 'done', outcome: 'stored', error: null } },
      { aspect: 'create', result: 'accepted', deliveries: 1 },
    ]);
    expect(idsOf(await list(`activityId=${id}&result=stale`))).toEqual([events[0].id]);
    expect((await ask(rig, 'GET', `/api/admin/webhook-events/${events[1].id}`)).body).toEqual(events[1]);
  });

  it('filters by athlete and time, and pages by a cursor', async () => {
    const owner = await rig.connectAthlete('Ledger');
    const ids = Array.from({ length: 5 }, () => rig.simulator.addActivity(owner).id);
    for (const id of ids) await rig.post(event(id, now(), 'create', owner));
    const seen: string[] = [];
    let cursor: string | null = '';
    while (cursor !== null) {
      const query: string = `athleteId=${owner}&limit=2${cursor && `&cursor=${cursor}`}`;
      const { body } = await ask(rig, 'GET', `/api/admin/webhook-events?${query}`);
      seen.push(...body.events.map(({ activityId }: { activityId: string }) => activityId));
      cursor = body.nextCursor;
    }
    expect(seen).toEqual([...ids].reverse());
    const [newest, , middle] = await list(`athleteId=${owner}`);
    expect(await list(`athleteId=${owner}&since=${newest.receivedAt}`)).toHaveLength(1);
    expect(await list(`athleteId=${owner}&until=${middle.receivedAt}`)).toHaveLength(2);
    expect((await ask(rig, 'GET', '/api/admin/webhook-events?since=yesterday')).body.errors[0].field).toBe(
      'query.since',
    );
  });

  it('replays a delivery: the activity is fetched even if it is stored', async () => {
    const id = await store();
    rig.simulator.updateActivity(id, { name: 'Renamed silently' });
    const [entry] = await list(`activityId=${id}`);
    const { status, body } = await ask(rig, 'POST', `/api/admin/webhook-events/${entry.id}/replay`);
    expect([status, body]).toEqual([200, { status: 'accepted', jobId: entry.job.id }]);
    await rig.untilJob(id, (job) => job.status === 'done');
    expect((await ask(rig, 'GET', `/api/admin/activities/${id}`)).body.name).toBe('Renamed silently');
  });

  it('replays a deletion: the activity is removed, even if newer events have arrived since', async () => {
    const id = await store();
    const gone = () => rig.simulator.faults.add({ kind: 'status', status: 404, match: { activityId: id } });
    const first = gone();
    await rig.post(event(id, now() + 10, 'delete'));
    await rig.untilJob(id, (job) => job.outcome === 'deleted');
    first.remove();
    await rig.post(event(id, now() + 20, 'update'));
    await rig.untilJob(id, (job) => job.outcome === 'stored');
    const deletion = (await list(`activityId=${id}`)).find(({ aspect }: { aspect: string }) => aspect === 'delete');
    gone();
    await ask(rig, 'POST', `/api/admin/webhook-events/${deletion.id}/replay`);
    await rig.untilJob(id, (job) => job.outcome === 'deleted');
    expect((await ask(rig, 'GET', `/api/admin/activities/${id}`)).status).toBe(404);
  });

  it('answers 404 for an event that does not exist', async () => {
    expect((await ask(rig, 'POST', '/api/admin/webhook-events/999999/replay')).status).toBe(404);
    expect((await ask(rig, 'GET', '/api/admin/webhook-events/999999')).status).toBe(404);
  });
});
