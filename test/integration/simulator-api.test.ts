import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import polyline from '@mapbox/polyline';
import sharp from 'sharp';
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts';

interface Shown {
  id: number;
  name: string;
  distance: number;
  start_date: string;
  start_latlng: number[];
  trainer: boolean;
  manual: boolean;
  map: { polyline: string; summary_polyline: string };
}

describe('the simulated provider: athletes and activities', () => {
  let simulator: Simulator;
  let token: string;
  const athleteId = '9007199254740993';

  beforeAll(async () => {
    simulator = await startSimulator({ seed: 7 });
    simulator.addAthlete({ id: athleteId, name: 'Ada Abbott' });
    token = simulator.grantTokens(athleteId).accessToken;
  });
  afterAll(() => simulator.close());

  const get = (path: string, accessToken = token) =>
    fetch(`${simulator.url}${path}`, { headers: { Authorization: `Bearer ${accessToken}` } });
  const show = async (id: string) => (await (await get(`/api/v3/activities/${id}`)).json()) as Shown;

  it('writes 64-bit ids digit by digit', async () => {
    const { id } = simulator.addActivity(athleteId, { id: '9223372036854775807' });
    const text = await (await get(`/api/v3/activities/${id}`)).text();
    expect(text).toContain('"id":9223372036854775807,');
    expect(text).toContain('"athlete":{"id":9007199254740993,');
    expect(await (await get('/api/v3/athlete')).text()).toContain('"id":9007199254740993,');
  });

  it('shows a route whose length, ends and polyline agree', async () => {
    const { id } = simulator.addActivity(athleteId, { sportType: 'Run', name: 'Say "hi" \\ ü' });
    const activity = await show(id);
    const points = polyline.decode(activity.map.polyline) as [number, number][];
    expect(activity.name).toBe('Say "hi" \\ ü');
    expect(points.length).toBeGreaterThan(100);
    expect(polyline.decode(activity.map.summary_polyline).length).toBeLessThan(points.length);
    expect(activity.start_latlng[0]).toBeCloseTo(points[0]?.[0] ?? 0, 4);
    expect(Math.abs(lengthOf(points) / activity.distance - 1)).toBeLessThan(0.03);
    expect(activity).toHaveProperty('similar_activities');
    expect(activity).toMatchObject({ sport_type: 'Run', resource_state: 3, private: false });
  });

  it('knows activities without a route, with one point, over the antimeridian, and huge ones', async () => {
    const shown = async (kind: 'indoor' | 'manual' | 'point' | 'antimeridian' | 'huge') =>
      show(simulator.addActivity(athleteId, { kind }).id);
    expect(await shown('indoor')).toMatchObject({ trainer: true, start_latlng: [], map: { polyline: '' } });
    expect(await shown('manual')).toMatchObject({ manual: true, start_latlng: [], map: { polyline: '' } });
    expect(polyline.decode((await shown('point')).map.polyline)).toHaveLength(1);
    const longitudes = polyline.decode((await shown('antimeridian')).map.polyline).map(([, lng]) => lng);
    expect(Math.max(...longitudes)).toBeGreaterThan(179.9);
    expect(Math.min(...longitudes)).toBeLessThan(-179.9);
    expect(polyline.decode((await shown('huge')).map.polyline)).toHaveLength(50_000);
  });

  it('draws the same world for the same seed', async () => {
    const texts: string[] = [];
    for (const seed of [3, 3, 4]) {
      const world = await startSimulator({ seed, now: () => Date.UTC(2026, 0, 1) });
      const owner = world.addAthlete();
      const { id } = world.addActivity(owner.id);
      const headers = { Authorization: `Bearer ${world.grantTokens(owner.id).accessToken}` };
      texts.push(await (await fetch(`${world.url}/api/v3/activities/${id}`, { headers })).text());
      await world.close();
    }
    expect(texts[1]).toBe(texts[0]);
    expect(texts[2]).not.toBe(texts[0]);
  });

  it('shows changes, and nothing once deleted', async () => {
    const { id } = simulator.addActivity(athleteId);
    simulator.updateActivity(id, { name: 'Renamed', sportType: 'Kitesurf', kind: 'indoor' });
    expect(await show(id)).toMatchObject({ name: 'Renamed', sport_type: 'Kitesurf', trainer: true, distance: 0 });
    simulator.deleteActivity(id);
    const gone = await get(`/api/v3/activities/${id}`);
    expect(gone.status).toBe(404);
    expect(await gone.json()).toMatchObject({ message: 'Record Not Found' });
  });

  it('answers 401 without a valid token', async () => {
    const refused = await get('/api/v3/athlete', 'nonsense');
    expect(refused.status).toBe(401);
    expect(await refused.json()).toEqual({
      message: 'Authorization Error',
      errors: [{ resource: 'Application', field: '', code: 'invalid' }],
    });
  });

  it('shows private activities to their owner alone, and only with the scope for them', async () => {
    const { id } = simulator.addActivity(athleteId, { private: true });
    const other = simulator.addAthlete();
    const status = async (accessToken: string) => (await get(`/api/v3/activities/${id}`, accessToken)).status;
    expect(await status(token)).toBe(200);
    expect(await status(simulator.grantTokens(athleteId, 'read,activity:read').accessToken)).toBe(404);
    expect(await status(simulator.grantTokens(athleteId, 'read').accessToken)).toBe(401);
    expect(await status(simulator.grantTokens(other.id).accessToken)).toBe(404);
  });

  it('lists newest first, in pages, between two times', async () => {
    const owner = simulator.addAthlete();
    const ids = simulator.addHistory(owner.id, 25).map(({ id }) => Number(id));
    const accessToken = simulator.grantTokens(owner.id).accessToken;
    const list = async (query: string) =>
      (await (await get(`/api/v3/athlete/activities?${query}`, accessToken)).json()) as Shown[];

    const firstPage = await list('per_page=10');
    expect(firstPage.map(({ id }) => id)).toEqual([...ids].reverse().slice(0, 10));
    expect(firstPage[0]?.map).toHaveProperty('summary_polyline');
    expect(firstPage[0]?.map).not.toHaveProperty('polyline');
    expect((await list('per_page=10&page=3')).map(({ id }) => id)).toEqual([...ids].reverse().slice(20));
    expect(await list('per_page=10&page=4')).toEqual([]);

    const moment = Date.parse(firstPage[4]?.start_date ?? '') / 1_000;
    expect(await list(`after=${moment}`)).toHaveLength(4);
    expect(await list(`before=${moment}`)).toHaveLength(20);
    expect((await get('/api/v3/athlete/activities?per_page=201', accessToken)).status).toBe(400);
    expect((await get('/api/v3/athlete/activities?page=x', accessToken)).status).toBe(400);
  });

  it('draws map tiles that do not count, and records the User-Agent', async () => {
    const used = simulator.usage().short;
    const path = '/tiles/13/4400/2687.png';
    const tile = await fetch(`${simulator.url}${path}`, { headers: { 'User-Agent': 'who-asks/1' } });
    expect(tile.headers.get('content-type')).toBe('image/png');
    const bytes = Buffer.from(await tile.arrayBuffer());
    expect(await sharp(bytes).metadata()).toMatchObject({ format: 'png', width: 256, height: 256 });
    expect(Buffer.from(await (await fetch(`${simulator.url}${path}`)).arrayBuffer()).equals(bytes)).toBe(true);
    expect((await fetch(`${simulator.url}/tiles/2/4/0.png`)).status).toBe(404);
    expect(simulator.usage().short).toBe(used);
    expect(simulator.calls.find((call) => call.path === path)).toMatchObject({
      userAgent: 'who-asks/1',
      counted: false,
    });
  });
});

function lengthOf(points: [number, number][]): number {
  return points.slice(1).reduce((sum, [lat, lng], index) => {
    const [fromLat, fromLng] = points[index] as [number, number];
    const shrink = Math.cos((lat * Math.PI) / 180);
    return sum + Math.hypot(lat - fromLat, (lng - fromLng) * shrink) * 111_195;
  }, 0);
}
