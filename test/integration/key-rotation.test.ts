import { afterEach, describe, expect, it } from '@jest/globals';
import { resealOutdatedTokens } from '../../src/flows/reseal-tokens.ts';
import { createSecretBox } from '../../src/infra/secret-box.ts';
import { openTestDatabase } from '../support/database.ts';
import { ENCRYPTION_KEY, type Rig, startRig } from '../support/service.ts';
import { until } from '../support/until.ts';

const NEW_KEY = 'ab'.repeat(32);
const newest = createSecretBox([NEW_KEY]);
const former = createSecretBox([ENCRYPTION_KEY]);
let rig: Rig;
afterEach(() => rig.close());

const tokens = () =>
  rig.service.database.query<{ access_token: string; refresh_token: string }>(
    'SELECT access_token, refresh_token FROM athlete ORDER BY athlete_id',
  );
const isUnderNewest = async () =>
  (await tokens()).every((row) => !newest.isOutdated(row.access_token) && !newest.isOutdated(row.refresh_token));

describe('a rotation of TOKEN_ENCRYPTION_KEY', () => {
  it('re-encrypts every athlete’s tokens with the newest key at the start; the former key can then be removed', async () => {
    rig = await startRig();
    const athletes = [await rig.connectAthlete(), await rig.connectAthlete(), await rig.connectAthlete()];
    const before = (await tokens()).map((row) => former.open(row.refresh_token));
    await rig.startReplica({ TOKEN_ENCRYPTION_KEY: `${NEW_KEY},${ENCRYPTION_KEY}` });
    await until(isUnderNewest, 'the rotation');
    expect((await tokens()).map((row) => newest.open(row.refresh_token))).toEqual(before);

    await rig.service.stop();
    const without = await rig.startReplica({ TOKEN_ENCRYPTION_KEY: NEW_KEY });
    rig = { ...rig, service: without };
    for (const id of athletes) expect(await without.accessTokens.get(id)).toBeDefined();
  });

  it('re-encrypts the secrets of endpoints with the newest key too', async () => {
    rig = await startRig({ env: { OUTBOUND_ALLOW_PRIVATE: 'true' } });
    const url = 'http://127.0.0.1:9/';
    const created = await rig.admin('/api/v1/endpoints', { method: 'POST', body: JSON.stringify({ url }) });
    const { id, secret } = (await created.json()) as { id: string; secret: string };
    const rotated = await rig.admin(`/api/v1/endpoints/${id}/rotate`, { method: 'POST' });
    const { secret: next } = (await rotated.json()) as { secret: string };
    await rig.startReplica({ TOKEN_ENCRYPTION_KEY: `${NEW_KEY},${ENCRYPTION_KEY}` });
    const sealed = async () => {
      const [row] = await rig.service.database.query<{ secret: string; former_secret: string }>(
        'SELECT secret, former_secret FROM endpoint',
      );
      return [row?.secret ?? '', row?.former_secret ?? ''];
    };
    await until(async () => (await sealed()).every((one) => !newest.isOutdated(one)), 'the rotation');
    expect((await sealed()).map((one) => newest.open(one))).toEqual([next, secret]);
  });

  it('seals with the newest key what a refresh brings', async () => {
    rig = await startRig({ env: { TOKEN_ENCRYPTION_KEY: `${NEW_KEY},${ENCRYPTION_KEY}` } });
    const athleteId = await rig.connectAthlete();
    const [sealed] = (await tokens()).map((row) => former.seal(newest.open(row.refresh_token)));
    await rig.service.database.query('UPDATE athlete SET refresh_token = $1, token_expires_at = now()', [sealed]);
    await rig.service.accessTokens.get(athleteId);
    expect(await isUnderNewest()).toBe(true);
  });

  it('leaves what no key opens alone, and continues with the others', async () => {
    rig = await startRig();
    const [lost] = [await rig.connectAthlete(), await rig.connectAthlete()];
    const foreign = createSecretBox(['cd'.repeat(32)]).seal('token');
    await rig.service.database.query('UPDATE athlete SET access_token = $2, refresh_token = $2 WHERE athlete_id = $1', [
      lost,
      foreign,
    ]);
    await rig.startReplica({ TOKEN_ENCRYPTION_KEY: `${NEW_KEY},${ENCRYPTION_KEY}` });
    await until(async () => !newest.isOutdated((await tokens())[1]?.refresh_token ?? ''), 'the rotation');
    expect((await tokens())[0]).toEqual({ access_token: foreign, refresh_token: foreign });
  });

  it('costs no athlete whose new pair waits for the database to be back: it is saved in place of the spent one', async () => {
    rig = await startRig({
      proxied: true,
      env: { SERVICE_ROLES: 'web', TOKEN_ENCRYPTION_KEY: `${ENCRYPTION_KEY},${NEW_KEY}` },
    });
    const athleteId = await rig.connectAthlete();
    const direct = openTestDatabase(rig.database.url);
    await direct.query('UPDATE athlete SET token_expires_at = now()');
    const hold = rig.simulator.faults.add({ kind: 'hold', match: { path: /oauth\/token/ } });
    const demanded = rig.service.accessTokens.get(athleteId);
    await hold.held;
    rig.proxy.cut();
    hold.remove();
    const rotated = await resealOutdatedTokens(direct, createSecretBox([NEW_KEY, ENCRYPTION_KEY]));
    expect(rotated).toEqual({ resealed: 1, unreadable: 0 });
    await direct.close();
    rig.proxy.restore();
    const token = await demanded;
    expect(await rig.service.accessTokens.get(athleteId)).toBe(token);
  });
});
