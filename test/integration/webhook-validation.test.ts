import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { problemOf } from '../support/problem.ts';
import { type Rig, startRig, VERIFY_TOKEN } from '../support/service.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await startRig({ env: { SERVICE_ROLES: 'web' } });
});
afterAll(() => rig.close());

const PATH = '/api/provider/webhook';

describe('GET /api/provider/webhook', () => {
  const validate = (query: Record<string, string>) => fetch(`${rig.service.url}${PATH}?${new URLSearchParams(query)}`);
  const good = {
    'hub.mode': 'subscribe',
    'hub.challenge': '15f7d1a91c1f40f8a748fd134752feb3',
    'hub.verify_token': VERIFY_TOKEN,
  };

  it('echoes the challenge as JSON', async () => {
    const response = await validate(good);
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toMatch(/^application\/json/);
    expect(await response.json()).toEqual({ 'hub.challenge': good['hub.challenge'] });
  });

  it('refuses a wrong token with 403, and does not repeat the right one', async () => {
    const { detail } = await problemOf(await validate({ ...good, 'hub.verify_token': 'wrong' }), 403);
    expect(detail).not.toContain(VERIFY_TOKEN);
  });

  it.each(['hub.mode', 'hub.challenge', 'hub.verify_token'])('refuses a request without %s with 400', async (name) => {
    const query = Object.fromEntries(Object.entries(good).filter(([key]) => key !== name));
    expect(await problemOf(await validate(query), 400)).toMatchObject({ fields: [`query.${name}`] });
  });

  it('refuses another mode and a repeated parameter with 400', async () => {
    expect(await problemOf(await validate({ ...good, 'hub.mode': 'unsubscribe' }), 400)).toMatchObject({
      fields: ['query.hub.mode'],
    });
    const twice = await fetch(`${rig.service.url}${PATH}?${new URLSearchParams(good)}&hub.challenge=again`);
    await problemOf(twice, 400);
  });

  it('answers while the creation of the subscription is still open', async () => {
    const callbackUrl = `${rig.service.url}${PATH}`;
    const created = await rig.admin('/api/admin/webhooks', {
      method: 'POST',
      body: JSON.stringify({ callbackUrl, verifyToken: VERIFY_TOKEN }),
    });
    expect(created.status).toBe(201);
    expect(rig.simulator.subscriptions).toMatchObject([{ callbackUrl }]);
    await rig.admin('/api/admin/webhooks', { method: 'DELETE' });
  });
});
