import { afterEach, describe, expect, it } from '@jest/globals';
import type { Service } from '../../src/compose.ts';
import type { CallRecord } from '../../src/simulator/call-log.ts';
import { type Rig, startRig, testEnvironment } from '../support/service.ts';
import { freePort, startServiceProcess } from '../support/service-process.ts';

const ROUNDS = 20;
const DEMANDS = 50;
let rig: Rig;
afterEach(() => rig.close());

const isRefresh = (call: CallRecord) => call.path === '/oauth/token';
const refreshes = () => rig.simulator.calls.filter(isRefresh).length;

const stateOf = async (athleteId: string) =>
  (await rig.service.database.query('SELECT state, state_detail FROM athlete WHERE athlete_id = $1', [athleteId]))[0];

/** Ends the athlete's token, here and at the provider. */
async function expire(athleteId: string): Promise<void> {
  rig.simulator.invalidateAccessToken(athleteId);
  await rig.service.database.query(`UPDATE athlete SET token_expires_at = now() WHERE athlete_id = $1`, [athleteId]);
}

async function connected(): Promise<string> {
  const athleteId = await rig.connectAthlete();
  rig.simulator.clearCalls();
  return athleteId;
}

/** Lets an activity be stored, whatever it takes. */
async function store(athleteId: string): Promise<string> {
  const { id } = rig.simulator.addActivity(athleteId);
  await rig.simulator.deliver({ object_id: id, owner_id: athleteId }, { url: webhook() });
  await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
  return id;
}

const webhook = () => `${rig.service.url}/api/provider/webhook`;
const count = async (table: string) => (await rig.service.database.query(`SELECT FROM ${table}`)).length;

describe('two replicas that need one athlete’s token at once', () => {
  it('refresh it with one call, a thousand times, and lose no athlete', async () => {
    rig = await startRig();
    const services: Service[] = [rig.service, await rig.startReplica()];
    const athleteId = await connected();
    const demand = (demands: number) =>
      Promise.all(Array.from({ length: demands }, (_, n) => services[n % 2]?.accessTokens.get(athleteId)));
    for (let round = 1; round <= ROUNDS; round += 1) {
      await expire(athleteId);
      const tokens = new Set(await demand(DEMANDS));
      expect(tokens.size).toBe(1);
      expect(refreshes()).toBe(round);
      expect((await rig.service.provider.getAthlete([...tokens][0] as string)).id).toBe(athleteId);
    }
    await expire(athleteId);
    expect(new Set(await demand(1000)).size).toBe(1);
    expect(refreshes()).toBe(ROUNDS + 1);
    expect(await stateOf(athleteId)).toEqual({ state: 'healthy', state_detail: null });
  });

  it('replace a token that the provider refused with one call too', async () => {
    rig = await startRig();
    const services: Service[] = [rig.service, await rig.startReplica()];
    const athleteId = await connected();
    const refused = await rig.service.accessTokens.get(athleteId);
    rig.simulator.invalidateAccessToken(athleteId);
    const tokens = await Promise.all(
      Array.from({ length: DEMANDS }, (_, n) => services[n % 2]?.accessTokens.get(athleteId, undefined, refused)),
    );
    expect(new Set(tokens).size).toBe(1);
    expect(tokens).not.toContain(refused);
    expect(refreshes()).toBe(1);
  });
});

describe('a refresh whose answer is lost', () => {
  it('shows the athlete as needing to reconnect; reconnecting loses nothing, and what failed is fetched', async () => {
    rig = await startRig({ env: { FETCH_BACKOFF_BASE_MS: '20' } });
    const athleteId = await connected();
    const before = await store(athleteId);
    await expire(athleteId);
    rig.simulator.faults.add({ kind: 'cut', afterEffect: true, match: { path: /oauth\/token/ }, times: 1 });
    const { id } = rig.simulator.addActivity(athleteId);
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId }, { url: webhook() });
    const failed = await rig.untilJob(id, ({ status }) => status === 'failed');
    const detail = `The provider refused to refresh the token of athlete ${athleteId}; they must reconnect.`;
    expect(failed).toMatchObject({ outcome: 'unauthorized', error: detail });
    expect(await stateOf(athleteId)).toEqual({ state: 'reconnect', state_detail: detail });
    expect(await (await rig.admin(`/api/admin/athletes/${athleteId}`)).json()).toMatchObject({
      state: 'reconnect',
      stateDetail: detail,
    });

    await rig.connectAthlete('Test Athlete', athleteId);
    expect(await rig.untilJob(id, ({ status }) => status === 'done')).toMatchObject({
      id: failed.id,
      outcome: 'stored',
      attempts: 0,
    });
    expect(await stateOf(athleteId)).toEqual({ state: 'healthy', state_detail: null });
    const rows = await rig.service.database.query('SELECT activity_id FROM activity ORDER BY activity_id');
    expect(rows.map((row) => row.activity_id)).toEqual([before, id]);
  });

  it('because the process was killed: the same', async () => {
    rig = await startRig({ env: { SERVICE_ROLES: 'web' } });
    const athleteId = await connected();
    await expire(athleteId);
    const hold = rig.simulator.faults.add({ kind: 'hold', match: { path: /oauth\/token/ } });
    const { id } = rig.simulator.addActivity(athleteId);
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId }, { url: webhook() });
    const killed = startServiceProcess(
      testEnvironment(rig.simulator.url, {
        DATABASE_URL: rig.database.url,
        PORT: String(await freePort()),
        SERVICE_ROLES: 'fetch',
        FETCH_TIMEOUT_MS: '2000', // for so long the athlete is kept whose process dies
      }),
    );
    await hold.held; // the provider has issued a new pair that has not arrived yet
    await killed.end('SIGKILL');
    hold.remove();
    await rig.startReplica({ SERVICE_ROLES: 'fetch', FETCH_STALE_AFTER_MS: '500', FETCH_BACKOFF_BASE_MS: '20' });
    expect(await rig.untilJob(id, ({ status }) => status === 'failed', 20_000)).toMatchObject({
      outcome: 'unauthorized',
    });
    expect(await stateOf(athleteId)).toMatchObject({ state: 'reconnect' });
    await rig.connectAthlete('Test Athlete', athleteId);
    expect(await rig.untilJob(id, ({ status }) => status === 'done')).toMatchObject({ outcome: 'stored' });
    expect(await count('athlete')).toBe(1);
  });
});

describe('a database that becomes unreachable between the provider’s answer and the commit', () => {
  it('costs no athlete: the new pair is saved when it is back', async () => {
    rig = await startRig({ proxied: true });
    const athleteId = await connected();
    await expire(athleteId);
    const hold = rig.simulator.faults.add({ kind: 'hold', match: { path: /oauth\/token/ } });
    const demanded = rig.service.accessTokens.get(athleteId);
    await hold.held;
    rig.proxy.cut();
    hold.remove();
    await rig.simulator.waitForCall((call) => isRefresh(call) && call.answered);
    rig.proxy.restore();
    const token = await demanded;
    expect(await rig.service.accessTokens.get(athleteId)).toBe(token);
    await expire(athleteId);
    await store(athleteId);
    expect(refreshes()).toBe(2);
    expect(await stateOf(athleteId)).toMatchObject({ state: 'healthy' });
  });

  it('even if another replica has spent the old refresh token in the meantime', async () => {
    rig = await startRig({ proxied: true, env: { SERVICE_ROLES: 'web' } });
    const other = await rig.startReplica({ SERVICE_ROLES: 'web' });
    const athleteId = await connected();
    await expire(athleteId);
    const hold = rig.simulator.faults.add({ kind: 'hold', match: { path: /oauth\/token/ }, times: 1 });
    const demanded = rig.service.accessTokens.get(athleteId);
    await hold.held;
    rig.proxy.cut();
    hold.remove();
    await rig.simulator.waitForCall((call) => isRefresh(call) && call.answered);
    rig.proxy.restore();
    await other.accessTokens.get(athleteId).catch(() => undefined); // refused, unless the new pair is saved by now
    const token = await demanded;
    expect((await rig.service.provider.getAthlete(token)).id).toBe(athleteId);
    expect(await other.accessTokens.get(athleteId)).toBe(token);
    expect(await stateOf(athleteId)).toEqual({ state: 'healthy', state_detail: null });
  });
});

describe('a provider that refuses the service’s own credentials', () => {
  it('is no athlete’s fault: none needs to reconnect, and the job is retried', async () => {
    rig = await startRig({ env: { FETCH_BACKOFF_BASE_MS: '20' } });
    const athleteId = await connected();
    await expire(athleteId);
    const { settings } = rig.simulator;
    const secret = settings.clientSecret;
    settings.clientSecret = 'another-secret';
    const { id } = rig.simulator.addActivity(athleteId);
    await rig.simulator.deliver({ object_id: id, owner_id: athleteId }, { url: webhook() });
    const waiting = await rig.untilJob(id, ({ attempts }) => attempts > 0);
    expect(waiting.error).toMatch(/PROVIDER_CLIENT_SECRET/);
    expect(waiting.error).not.toContain(secret);
    expect(await stateOf(athleteId)).toEqual({ state: 'healthy', state_detail: null });
    settings.clientSecret = secret;
    expect(await rig.untilJob(id, ({ status }) => status === 'done')).toMatchObject({ outcome: 'stored' });
  });
});
