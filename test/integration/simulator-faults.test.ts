import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts';

describe('the simulated provider: faults', () => {
  let simulator: Simulator;
  let athleteId: string;
  let token: string;
  let activityId: string;

  beforeEach(async () => {
    simulator = await startSimulator();
    athleteId = simulator.addAthlete().id;
    token = simulator.grantTokens(athleteId).accessToken;
    activityId = simulator.addActivity(athleteId).id;
  });
  afterEach(() => simulator.close());

  const get = (path = `/api/v3/activities/${activityId}`, init: RequestInit = {}) =>
    fetch(`${simulator.url}${path}`, { headers: { Authorization: `Bearer ${token}` }, ...init });
  const statusOf = async (path?: string) => {
    const response = await get(path);
    await response.text();
    return response.status;
  };

  it('answers with any status, with the body of that status or another', async () => {
    for (const status of [401, 403, 404, 429, 500, 502, 503]) {
      simulator.faults.add({ kind: 'status', status, times: 1 });
      const response = await get();
      expect(response.status).toBe(status);
      expect(await response.json()).toHaveProperty('message');
    }
    simulator.faults.add({ kind: 'status', status: 404, body: '', times: 1 });
    expect(await (await get()).text()).toBe('');
    expect(await statusOf()).toBe(200);
  });

  it('applies only to matching calls, a given number of times', async () => {
    const other = simulator.addActivity(athleteId).id;
    const handle = simulator.faults.add({
      match: { activityId: BigInt(activityId) },
      kind: 'status',
      status: 500,
      times: 2,
    });
    expect(await statusOf(`/api/v3/activities/${other}`)).toBe(200);
    expect([await statusOf(), await statusOf(), await statusOf()]).toEqual([500, 500, 200]);
    expect(handle.hits).toBe(2);

    simulator.faults.add({ match: { athleteId, method: 'get', path: /\/athlete$/ }, kind: 'status', status: 503 });
    expect(await statusOf()).toBe(200);
    expect(await statusOf('/api/v3/athlete')).toBe(503);
    simulator.faults.clear();
    expect(await statusOf('/api/v3/athlete')).toBe(200);
  });

  it('answers 429 with Retry-After in seconds, as a date, or in the form with an error text', async () => {
    simulator.faults.add({ kind: 'retryAfter429', retryAfter: 7, times: 1 });
    expect((await get()).headers.get('retry-after')).toBe('7');
    simulator.faults.add({ kind: 'retryAfter429', retryAfter: new Date(Date.UTC(2030, 0, 1)), times: 1 });
    expect((await get()).headers.get('retry-after')).toBe('Tue, 01 Jan 2030 00:00:00 GMT');
    simulator.faults.add({ kind: 'retryAfter429', retryAfter: 'date', times: 1 });
    const turn = simulator.usage().windowStart + simulator.settings.intervalMs;
    expect(Date.parse((await get()).headers.get('retry-after') ?? '')).toBe(turn);
    simulator.faults.add({ kind: 'stringErrors429', times: 1 });
    expect(await (await get()).json()).toMatchObject({ errors: 'Rate Limit Exceeded', status: 429 });
  });

  it('cuts the connection before the answer and inside the body', async () => {
    simulator.faults.add({ kind: 'cut', times: 1 });
    await expect(get()).rejects.toThrow();
    expect(await simulator.waitForCall((call) => call.answered)).toMatchObject({ status: 0, counted: true });
    simulator.faults.add({ kind: 'cutBody', times: 1 });
    const response = await get();
    expect(response.status).toBe(200);
    await expect(response.text()).rejects.toThrow();
  });

  it('sends garbage, half of the JSON, and another content type', async () => {
    simulator.faults.add({ kind: 'garbage', times: 1 });
    const garbage = await get();
    expect(garbage.headers.get('content-type')).toContain('json');
    await expect(garbage.json()).rejects.toThrow('not valid JSON');
    simulator.faults.add({ kind: 'truncated', times: 1 });
    const truncated = await (await get()).text();
    expect(truncated).toMatch(/^\{"resource_state":3/);
    expect(() => JSON.parse(truncated)).toThrow(SyntaxError);
    simulator.faults.add({ kind: 'wrongType', times: 1 });
    expect((await get()).headers.get('content-type')).toContain('text/html');
  });

  it('hangs until the caller gives up', async () => {
    simulator.faults.add({ kind: 'hang', times: 1 });
    const patience = new AbortController();
    const hanging = get(undefined, { headers: { Authorization: `Bearer ${token}` }, signal: patience.signal });
    expect(await simulator.waitForArrival(() => true)).toMatchObject({ status: 0, answered: false });
    patience.abort();
    await expect(hanging).rejects.toThrow('aborted');
    expect(await simulator.waitForCall(() => true)).toMatchObject({ status: 0, answered: true });
  });

  it('holds an answer back until it is released, with what was true when it was asked', async () => {
    const hold = simulator.faults.add({ kind: 'hold', times: 1 });
    const held = get();
    await hold.held;
    simulator.deleteActivity(activityId);
    hold.release();
    expect((await held).status).toBe(200);
    expect(await statusOf()).toBe(404);
  });

  it('takes its time', async () => {
    simulator.faults.add({ kind: 'latency', latencyMs: 60, times: 1 });
    const startedAt = performance.now();
    expect(await statusOf()).toBe(200);
    expect(performance.now() - startedAt).toBeGreaterThan(55);
    simulator.settings.latencyMs = 40;
    const again = performance.now();
    await statusOf();
    expect(performance.now() - again).toBeGreaterThan(35);
  });

  it('loses the answer of a refresh that did happen', async () => {
    const { refreshToken } = simulator.grantTokens(athleteId);
    const refresh = () =>
      fetch(`${simulator.url}/oauth/token`, {
        method: 'POST',
        body: new URLSearchParams({
          client_id: 'simulator-client',
          client_secret: 'simulator-secret',
          grant_type: 'refresh_token',
          refresh_token: refreshToken,
        }),
      });
    simulator.faults.add({ match: { path: /token/, athleteId }, kind: 'cut', afterEffect: true, times: 1 });
    await expect(refresh()).rejects.toThrow();
    expect((await refresh()).status).toBe(400);
  });

  it('closes with calls still open', async () => {
    simulator.faults.add({ kind: 'hang' });
    simulator.settings.latencyMs = 0;
    const hanging = expect(get()).rejects.toThrow();
    await simulator.waitForArrival(() => true);
    await simulator.close();
    await hanging;
  });
});
