import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { recordChanges } from '../../src/store/changes.ts';
import { type Application, startApplication } from '../support/application.ts';
import { startClockedRig } from '../support/clocked-rig.ts';
import { readEvents } from '../support/event-reader.ts';
import { type Rig, startRig } from '../support/service.ts';
import { until } from '../support/until.ts';

let rig: Rig;
let app: Application;
beforeAll(async () => {
  rig = await startRig();
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
  app = await startApplication(rig, 'read');
});
afterAll(() => rig.close());

interface Change {
  cursor: string;
  id: string;
  type: string;
  athleteId: string | null;
  activityId: string | null;
}

const newest = async (): Promise<string> => (await app.call('GET', '/api/v1/changes?after=latest')).body.nextCursor;
const changesAfter = async (after: string, more = ''): Promise<Change[]> =>
  (await app.call('GET', `/api/v1/changes?after=${after}&limit=1000${more}`)).body.changes;
const typesAfter = async (after: string) => (await changesAfter(after)).map(({ type }) => type);
const record = (activityId: string, until: Promise<unknown> = Promise.resolve()) =>
  rig.service.database.transaction(async (tx) => {
    await recordChanges(tx, [{ type: 'activity.updated', athleteId: '1', activityId }]);
    await until;
  });

const headers = (more: Record<string, string> = {}) => ({
  authorization: `Bearer ${app.token}`,
  accept: 'text/event-stream',
  ...more,
});

describe('the feed of changes', () => {
  it('announces each change of an athlete and of their activities once, in commit order', async () => {
    const start = await newest();
    const athleteId = await rig.connectAthlete('Ada Runner');
    const { id } = await rig.simulator.createActivityAndNotify(athleteId);
    await until(async () => (await typesAfter(start)).includes('activity.thumbnail'), 'the picture');
    await rig.simulator.updateActivityAndNotify(id, { name: 'Another name' });
    await until(
      async () => (await typesAfter(start)).filter((type) => type === 'activity.thumbnail').length === 2,
      'the second picture',
    );
    await rig.simulator.deleteActivityAndNotify(id);
    await until(async () => (await typesAfter(start)).includes('activity.deleted'), 'the deletion');
    expect(await typesAfter(start)).toEqual([
      'athlete.connected',
      'activity.created',
      'activity.thumbnail',
      'activity.updated',
      'activity.thumbnail',
      'activity.deleted',
    ]);
    const changes = await changesAfter(start);
    expect(new Set(changes.map((change) => change.athleteId))).toEqual(new Set([athleteId]));
    expect(changes.map(({ cursor }) => Number(cursor))).toEqual(changes.map((_, n) => Number(start) + n + 1));
  });

  it('keeps nothing of an erased athlete except athlete.disconnected', async () => {
    const start = await newest();
    const athleteId = await rig.connectAthlete('Bo Rider');
    const { id } = await rig.simulator.createActivityAndNotify(athleteId);
    await until(async () => (await typesAfter(start)).includes('activity.thumbnail'), 'the picture');
    expect((await rig.admin(`/api/admin/athletes/${athleteId}`, { method: 'DELETE' })).status).toBe(200);
    expect(await changesAfter(start)).toEqual([
      expect.objectContaining({ type: 'athlete.disconnected', athleteId, activityId: null }),
    ]);
    expect(JSON.stringify(await changesAfter('0'))).not.toContain(id);
  });

  it('shows a reader between two commits no position ahead of one that is still to come', async () => {
    const start = await newest();
    let commit: () => void = () => undefined;
    const slow = record(
      '1',
      new Promise<void>((resolve) => {
        commit = resolve;
      }),
    );
    await record('2');
    const first = await changesAfter(start);
    commit();
    await slow;
    const second = await changesAfter(first.at(-1)?.cursor ?? '');
    expect([first.map(({ activityId }) => activityId), second.map(({ activityId }) => activityId)]).toEqual([
      ['2'],
      ['1'],
    ]);
  });

  it('misses nothing and repeats nothing for a reader beside many writers that commit in any order', async () => {
    const start = await newest();
    let writing = true;
    const writers = Array.from({ length: 8 }, async (_, writer) => {
      for (let n = 0; n < 40; n += 1) await record(String(writer * 1000 + n + 1));
    });
    const all = Promise.all(writers).then(() => {
      writing = false;
    });
    const read: Change[] = [];
    while (writing || read.length < 320) {
      const page = (await app.call('GET', `/api/v1/changes?after=${read.at(-1)?.cursor ?? start}&limit=7&wait=1`)).body;
      read.push(...page.changes);
      if (!writing && page.changes.length === 0) break;
    }
    await all;
    expect(read.map(({ cursor }) => Number(cursor))).toEqual(
      Array.from({ length: 320 }, (_, n) => Number(start) + n + 1),
    );
    expect(new Set(read.map(({ activityId }) => activityId)).size).toBe(320);
  });

  it('leaves no trace of a transaction that is rolled back, nor a gap', async () => {
    const start = await newest();
    await expect(record('1', Promise.reject(new Error('rolled back')))).rejects.toThrow('rolled back');
    await record('2');
    expect((await changesAfter(start)).map(({ cursor, activityId }) => [Number(cursor), activityId])).toEqual([
      [Number(start) + 1, '2'],
    ]);
  });

  it('waits for a change, and answers as soon as there is one', async () => {
    const start = await newest();
    const waiting = app.call('GET', `/api/v1/changes?after=${start}&wait=30`);
    const begun = performance.now();
    await record('5');
    expect((await waiting).body.changes).toHaveLength(1);
    expect(performance.now() - begun).toBeLessThan(10_000);
  });

  it('skips other types and athletes, and moves its cursor past them', async () => {
    const start = await newest();
    await record('6');
    const { changes, nextCursor } = (await app.call('GET', `/api/v1/changes?after=${start}&types=athlete.connected`))
      .body;
    expect([changes, nextCursor]).toEqual([[], await newest()]);
    expect(await changesAfter(start, '&athleteId=2')).toEqual([]);
    expect(await changesAfter(start, '&athleteId=1&types=activity.updated,activity.deleted')).toHaveLength(1);
  });

  it('refuses a cursor that is not the feed’s, naming the field', async () => {
    for (const after of ['-1', 'abc', '1e3', '99999999999999']) {
      const { status, body } = await app.call('GET', `/api/v1/changes?after=${after}`);
      expect([status, body.errors[0].field]).toEqual([400, 'query.after']);
    }
    const { status } = await app.call('GET', '/api/v1/changes?types=activity.eaten');
    expect(status).toBe(400);
  });

  it('streams existing and new changes, and resumes behind Last-Event-ID', async () => {
    const start = await newest();
    await record('7');
    const stream = await readEvents(`${rig.service.url}/api/v1/changes?after=${start}`, headers());
    expect(stream.status).toBe(200);
    await record('8');
    const second = await stream.until(({ data }) => (data as Change).activityId === '8');
    expect(stream.events.map(({ data }) => (data as Change).activityId)).toEqual(['7', '8']);
    await stream.close();
    await record('9');
    const resumed = await readEvents(`${rig.service.url}/api/v1/changes`, headers({ 'last-event-id': second.id }));
    await resumed.until(({ event }) => event === 'activity.updated');
    expect(resumed.events.map(({ data }) => (data as Change).activityId)).toEqual(['9']);
    await resumed.close();
  });

  it('opens no stream for HEAD, and of one token 50: one more is answered 503 with Retry-After', async () => {
    for (let n = 0; n < 51; n += 1) {
      const head = await fetch(`${rig.service.url}/api/v1/changes`, { method: 'HEAD', headers: headers() });
      expect([head.status, head.headers.get('content-type')]).toEqual([200, expect.stringContaining('json')]);
    }
    const open = () => readEvents(`${rig.service.url}/api/v1/changes?after=latest`, headers());
    const streams = await Promise.all(Array.from({ length: 50 }, open));
    expect(new Set(streams.map(({ status }) => status))).toEqual(new Set([200]));
    const refused = await app.call('GET', '/api/v1/changes', undefined, { accept: 'text/event-stream' });
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '30']);
    const other = await startApplication(rig, 'read');
    const stream = await readEvents(`${rig.service.url}/api/v1/changes?after=latest`, {
      ...headers(),
      authorization: `Bearer ${other.token}`,
    });
    expect(stream.status).toBe(200);
    await Promise.all([stream, ...streams].map((one) => one.close()));
    await until(async () => {
      const next = await open();
      await next.close();
      return next.status === 200;
    }, 'a free place');
  });

  /** Last in this file: it empties the feed. */
  it('answers 410 to a cursor older than the retention, with how to resynchronise', async () => {
    const start = await newest();
    await record('10');
    await rig.service.database.query(`UPDATE change SET at = at - interval '31 days'`);
    const replica = await rig.startReplica({ SERVICE_ROLES: 'web' });
    await until(async () => (await app.call('GET', '/api/v1/changes?after=0')).status === 410, 'the purge');
    await replica.stop();
    const { status, body } = await app.call('GET', `/api/v1/changes?after=${start}`);
    expect([status, body.detail]).toEqual([410, expect.stringContaining('after=latest')]);
    const latest = await newest();
    expect(latest).toBe(String(Number(start) + 1));
    await record('11');
    expect(await changesAfter(latest)).toEqual([
      expect.objectContaining({ activityId: '11', cursor: String(Number(start) + 2) }),
    ]);
  });
});

describe('a stream of changes', () => {
  it('ends after an hour, so that its token is checked again', async () => {
    const clocked = await startClockedRig({ SERVICE_ROLES: 'web' });
    const { token } = await startApplication(clocked, 'read');
    const stream = await readEvents(`${clocked.service.url}/api/v1/changes`, {
      ...headers(),
      authorization: `Bearer ${token}`,
    });
    let isOver = false;
    const ended = stream.ended.finally(() => {
      isOver = true;
    });
    await clocked.advance(3_599_000);
    await until(() => stream.text.includes('still here'), 'the heartbeat');
    expect(isOver).toBe(false);
    await clocked.advance(1000);
    await expect(ended).rejects.toThrow('terminated');
    await clocked.close();
  });
});
