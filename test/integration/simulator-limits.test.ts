import { afterEach, describe, expect, it } from '@jest/globals';
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts';

type Options = Parameters<typeof startSimulator>[0];

const quarterHourMs = 900_000;
const windowStart = Date.UTC(2026, 4, 4, 10, 15);

describe('the simulated provider: rate limits', () => {
  let simulator: Simulator;
  let token: string;
  let nowMs: number;

  const start = async (options: Options) => {
    nowMs = windowStart + 60_000;
    simulator = await startSimulator({ now: () => nowMs, accessTokenSeconds: 86_400, ...options });
    token = simulator.grantTokens(simulator.addAthlete().id).accessToken;
  };
  afterEach(() => simulator.close());

  const get = async (path = '/api/v3/athlete') => {
    const response = await fetch(`${simulator.url}${path}`, { headers: { Authorization: `Bearer ${token}` } });
    await response.text();
    return response;
  };

  it('counts every call in four headers', async () => {
    await start({ shortLimit: 100, dailyLimit: 1_000, readShortLimit: 50, readDailyLimit: 500 });
    await get();
    const { headers } = await get('/api/v3/activities/1');
    expect(headers.get('x-ratelimit-limit')).toBe('100,1000');
    expect(headers.get('x-ratelimit-usage')).toBe('2,2');
    expect(headers.get('x-readratelimit-limit')).toBe('50,500');
    expect(headers.get('x-readratelimit-usage')).toBe('2,2');
    expect(simulator.usage()).toEqual({ short: 2, daily: 2, rejected: 0, windowStart });
  });

  it('refuses what is over the short limit, counts it against the day, and opens with the next aligned window', async () => {
    await start({ shortLimit: 2, dailyLimit: 100 });
    expect((await get()).status).toBe(200);
    expect((await get()).status).toBe(200);
    const refused = await fetch(`${simulator.url}/api/v3/athlete`, { headers: { Authorization: `Bearer ${token}` } });
    expect(refused.status).toBe(429);
    expect(await refused.json()).toEqual({
      message: 'Rate Limit Exceeded',
      errors: [{ resource: 'Application', field: 'rate limit', code: 'exceeded' }],
    });
    expect(refused.headers.get('retry-after')).toBeNull();
    expect(refused.headers.get('x-ratelimit-usage')).toBe('2,3');

    nowMs = windowStart + quarterHourMs - 1;
    expect((await get()).status).toBe(429);
    nowMs = windowStart + quarterHourMs;
    expect((await get()).headers.get('x-ratelimit-usage')).toBe('1,5');
  });

  it('keeps the daily limit until midnight UTC', async () => {
    await start({ shortLimit: 10, dailyLimit: 2 });
    await get();
    await get();
    nowMs += quarterHourMs;
    const refused = await get();
    expect(refused.status).toBe(429);
    nowMs = Date.UTC(2026, 4, 5);
    expect((await get()).status).toBe(200);
  });

  it('keeps the reading limit', async () => {
    await start({ shortLimit: 10, readShortLimit: 1 });
    expect((await get()).status).toBe(200);
    expect((await get()).status).toBe(429);
  });

  it('counts by its own clock', async () => {
    await start({ shortLimit: 1, clockOffsetMs: quarterHourMs });
    const { headers } = await get();
    expect(headers.get('date')).toBe('Mon, 04 May 2026 10:31:00 GMT');
    expect(simulator.usage().windowStart).toBe(windowStart + quarterHourMs);
    expect((await get()).status).toBe(429);
    simulator.settings.clockOffsetMs = 0;
    expect((await get()).status).toBe(200);
  });

  it('does not count the push subscriptions, OAuth or unknown pages', async () => {
    await start({ shortLimit: 1 });
    const credentials = 'client_id=simulator-client&client_secret=simulator-secret';
    const list = await get(`/api/v3/push_subscriptions?${credentials}`);
    expect(list.status).toBe(200);
    expect(list.headers.get('x-ratelimit-usage')).toBeNull();
    await get('/oauth/authorize');
    await get('/nowhere');
    expect(simulator.usage().daily).toBe(0);
  });

  it('keeps a log of calls, without credentials', async () => {
    await start({ shortLimit: 1 });
    const athleteId = simulator.athletes[0]?.id;
    await get('/api/v3/athlete/activities?page=2');
    await get('/api/v3/activities/77');
    await get('/api/v3/push_subscriptions?client_id=simulator-client&client_secret=simulator-secret');
    const common = { at: nowMs, window: windowStart, method: 'GET', answered: true };
    expect(simulator.calls).toEqual([
      expect.objectContaining({
        ...common,
        path: '/api/v3/athlete/activities',
        query: 'page=2',
        status: 200,
        athleteId,
      }),
      expect.objectContaining({
        ...common,
        path: '/api/v3/activities/77',
        activityId: '77',
        status: 429,
        counted: true,
      }),
      expect.objectContaining({ ...common, path: '/api/v3/push_subscriptions', query: '', counted: false }),
    ]);
    simulator.clearCalls();
    expect(simulator.calls).toEqual([]);
  });

  it('signals calls as they arrive and as they end', async () => {
    await start({});
    const ended: string[] = [];
    simulator.on('call', ({ path, status }) => ended.push(`${path} ${status}`));
    const waiting = simulator.waitForCall(({ status }) => status === 404);
    await get();
    await get('/api/v3/activities/5');
    expect(await waiting).toMatchObject({ activityId: '5' });
    expect(await simulator.waitForCall(({ path }) => path === '/api/v3/athlete')).toMatchObject({ status: 200 });
    expect(ended).toEqual(['/api/v3/athlete 200', '/api/v3/activities/5 404']);
    await expect(simulator.waitForCall(({ status }) => status === 500, 1)).rejects.toThrow('No such call within 1 ms');
  });
});
