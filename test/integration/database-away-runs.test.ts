import type { Socket } from 'node:net';
import { Writable } from 'node:stream';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import winston from 'winston';
import type { Database } from '../../src/infra/database.ts';
import { openTestDatabase } from '../support/database.ts';
import { type Rig, startRig } from '../support/service.ts';

let rig: Rig;
let athleteId: string;
/** A way to the database that the proxy does not cut. */
let database: Database;
const logger = winston.createLogger({
  transports: [new winston.transports.Stream({ stream: new Writable({ write: (_chunk, _encoding, done) => done() }) })],
});

beforeAll(async () => {
  rig = await startRig({ proxied: true, logger, env: { SERVICE_ROLES: 'web,fetch' } });
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
  athleteId = await rig.connectAthlete();
  database = openTestDatabase(rig.database.url);
});
afterAll(async () => {
  await database.close();
  await rig.close();
});
afterEach(() => {
  rig.proxy.release();
  rig.proxy.restore();
});

/** Delivers an event; resolves when the call has reached the provider, whose answer is held back. */
async function startHeldCall(
  id = rig.simulator.addActivity(athleteId).id,
): Promise<{ id: string; answer: () => void }> {
  const held = rig.simulator.faults.add({ kind: 'hold', match: { activityId: id }, times: 1 });
  await rig.simulator.deliver({ object_id: id, owner_id: athleteId });
  await held.held;
  return { id, answer: () => held.release() };
}

function untilLogged(text: string): Promise<void> {
  return new Promise((resolve) => {
    const look = ({ message }: { message: string }) => {
      if (!message.includes(text)) return;
      logger.off('data', look);
      resolve();
    };
    logger.on('data', look);
  });
}

async function untilEnded(id: string) {
  for (;;) {
    const [job] = await database.query<{ status: string; outcome: string; attempts: number }>(
      `SELECT v.status, j.outcome, v.attempts FROM "ActivityFetchJob" v JOIN activity_fetch_job j USING (id)
       WHERE j.activity_id = $1 AND j.outcome IS NOT NULL`,
      [id],
    );
    if (job) return job;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const callsFor = (id: string) => rig.simulator.calls.filter((call) => call.activityId === id);
const isStored = async (id: string) =>
  (await database.query('SELECT FROM activity WHERE activity_id = $1', [id])).length === 1;

describe('a run that ends while the database is unreachable', () => {
  it('keeps what the provider answered, and stores it when the database is back', async () => {
    const { id, answer } = await startHeldCall();
    const kept = untilLogged('settlement kept');
    rig.proxy.cut();
    answer();
    await kept;
    rig.proxy.restore();
    expect(await untilEnded(id)).toEqual({ status: 'done', outcome: 'stored', attempts: 0 });
    expect(callsFor(id)).toHaveLength(1);
    expect(await isStored(id)).toBe(true);
  });

  it('keeps a refusal as well', async () => {
    const { id, answer } = await startHeldCall('404');
    const kept = untilLogged('settlement kept');
    rig.proxy.cut();
    answer();
    await kept;
    rig.proxy.restore();
    expect(await untilEnded(id)).toMatchObject({ status: 'failed', outcome: 'notFound' });
    expect(callsFor(id)).toHaveLength(1);
  });

  it('is not ended twice when only the answer to its commit was lost', async () => {
    const before = await startHeldCall();
    before.answer();
    await untilEnded(before.id); // its connection is open now, and needs no answer
    const { id, answer } = await startHeldCall();
    const dropped = untilLogged('claim lost, result discarded');
    const loseAnswerToCommit = (settling: Socket) => rig.proxy.holdFrom('COMMIT', () => undefined, 'answers', settling);
    rig.proxy.holdFrom(`"activityId":"${id}"`, loseAnswerToCommit, 'nothing');
    answer();
    const ended = await untilEnded(id);
    rig.proxy.cut();
    rig.proxy.release();
    rig.proxy.restore();
    await dropped;
    expect(await untilEnded(id)).toEqual(ended);
    expect(ended).toMatchObject({ status: 'done', outcome: 'stored' });
    expect(callsFor(id)).toHaveLength(1);
    expect(await isStored(id)).toBe(true);
  });
});
