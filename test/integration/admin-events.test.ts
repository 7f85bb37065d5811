import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { notify } from '../../src/infra/notify.ts';
import { ask } from '../support/admin.ts';
import { type EventReader, readEvents } from '../support/event-reader.ts';
import { ADMIN_TOKEN, READ_TOKEN, type Rig, startRig } from '../support/service.ts';

let rig: Rig;
let athleteId: string;
const open: EventReader[] = [];
const EVENTS = ['jobs', 'budget', 'activity', 'athlete', 'webhook', 'sync'];

const look = async (token = READ_TOKEN, headers: Record<string, string> = {}, url = rig.service.url) => {
  const reader = await readEvents(`${url}/api/admin/events`, { authorization: `Bearer ${token}`, ...headers });
  open.push(reader);
  return reader;
};
const greeted = async (reader: EventReader) => {
  for (const event of EVENTS) await reader.until((one) => one.event === event);
  return reader.events.length;
};

beforeAll(async () => {
  rig = await startRig();
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
  athleteId = await rig.connectAthlete();
});
afterEach(async () => {
  for (const reader of open.splice(0)) await reader.close();
});
afterAll(() => rig.close());

describe('GET /api/admin/events', () => {
  it('sends each new viewer everything, whatever it saw last', async () => {
    const reader = await look(READ_TOKEN, { 'last-event-id': '12345' });
    await greeted(reader);
    expect(reader.text).toMatch(/^retry: [0-9]+\n\n/);
    expect(reader.events.map(({ event }) => event)).toEqual(EVENTS);
    expect(reader.events[0]?.data).toEqual((await ask(rig, 'GET', '/api/admin/activity-jobs')).body.stats);
    expect(reader.events[1]?.data).toMatchObject({ capacity: 1_000_000, waiting: { turn: 0 } });
    expect(reader.events[2]?.data).toEqual({ ids: null });
    const ids = reader.events.map(({ id }) => Number(id));
    expect(ids).toEqual([...ids].sort((a, b) => a - b));
  });

  it('shows a posted webhook within a second, and the activity once it is drawn', async () => {
    const reader = await look();
    const from = await greeted(reader);
    const postedAt = performance.now();
    const { id } = await rig.simulator.createActivityAndNotify(athleteId);
    await reader.until(({ event }) => event === 'webhook', from);
    await reader.until(({ event }) => event === 'jobs', from);
    expect(performance.now() - postedAt).toBeLessThan(1000);
    await reader.until(
      ({ event, data }) => event === 'activity' && (data as { ids: string[] }).ids?.includes(id),
      from,
    );
  });

  it('batches events: at most four rounds a second reach a viewer', async () => {
    const reader = await look();
    const from = await greeted(reader);
    const startedAt = performance.now();
    for (let count = 0; count < 60; count += 1) await notify(rig.service.database, 'job');
    await notify(rig.service.database, 'athlete');
    await reader.until(({ event }) => event === 'athlete', from);
    const rounds = Math.ceil((performance.now() - startedAt) / 250) + 1;
    expect(reader.events.slice(from).filter(({ event }) => event === 'webhook').length).toBeLessThanOrEqual(rounds);
  });

  it('announces athletes, the budget and deleted activities', async () => {
    const { id } = await rig.simulator.createActivityAndNotify(athleteId);
    await rig.untilJob(id, (job) => job.status === 'done');
    const reader = await look();
    const from = await greeted(reader);
    await rig.connectAthlete('Newcomer');
    await reader.until(({ event }) => event === 'athlete', from);
    await rig.service.budget.block(1000, 'a test');
    await reader.until(
      ({ event, data }) => event === 'budget' && (data as { blockedBy: string }).blockedBy === 'a test',
      from,
    );
    await rig.service.database.query(`UPDATE rate_budget SET blocked_until = '-infinity', reduced_capacity = NULL`);
    await rig.simulator.deleteActivityAndNotify(id);
    await reader.until(
      ({ event, data }) => event === 'activity' && (data as { ids: string[] }).ids?.includes(id),
      from,
    );
  });

  it('costs one LISTEN connection, however many viewers there are', async () => {
    const readers = await Promise.all(Array.from({ length: 50 }, () => look()));
    const before = await Promise.all(readers.map(greeted));
    const [row] = await rig.service.database.query<{ listeners: number }>(
      `SELECT count(*)::int AS listeners FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'activity-sync listen'`,
    );
    expect(row?.listeners).toBe(1);
    await rig.simulator.createActivityAndNotify(athleteId);
    await Promise.all(readers.map((reader, index) => reader.until(({ event }) => event === 'webhook', before[index])));
  });

  it('needs a token', async () => {
    const response = await fetch(`${rig.service.url}/api/admin/events`);
    expect(response.status).toBe(401);
    await response.arrayBuffer();
  });

  it('ends when the service stops, and does not delay the stop', async () => {
    const replica = await rig.startReplica({ SERVICE_ROLES: 'web' });
    const reader = await look(ADMIN_TOKEN, {}, replica.url);
    await greeted(reader);
    const startedAt = performance.now();
    await replica.stop();
    await reader.ended;
    expect(performance.now() - startedAt).toBeLessThan(2000);
  });
});
