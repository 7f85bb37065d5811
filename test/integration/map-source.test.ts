import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { LatLng } from '../../src/domain/route.ts';
import { sharp } from '../../src/thumbnail/image-library.ts';
import { keepLog } from '../support/kept-log.ts';
import { metric } from '../support/metric.ts';
import { type Rig, startRig } from '../support/service.ts';
import { untilThumbnail } from '../support/thumbnails.ts';
import { BLUE, sendImage, startTileServer, type TileServer } from '../support/tile-server.ts';
import { until } from '../support/until.ts';

const KEY = 'k3y-of-the-tile-server';
let tiles: TileServer;
let rig: Rig;
let athleteId: string;
const { logger, lines } = keepLog();

beforeAll(async () => {
  tiles = await startTileServer();
  rig = await startRig({
    logger,
    env: { THUMBNAIL_MAP_SOURCE: `${tiles.origin}/{z}/{x}/{y}.png?access=${KEY}` },
  });
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
  athleteId = await rig.connectAthlete();
});
afterAll(async () => {
  await rig.close();
  await tiles.close();
});

describe('the start of the thumbnail worker', () => {
  const started = () => lines.find((line) => line.includes('thumbnail worker started')) ?? '{}';

  it('names the map source by its host, and not the key in its address', () => {
    expect(JSON.parse(started())).toMatchObject({ mapSource: new URL(tiles.origin).host });
    expect(lines.join()).not.toContain(KEY);
  });

  it('says when there is none', async () => {
    lines.splice(0);
    const replica = await rig.startReplica({ THUMBNAIL_MAP_SOURCE: 'none' });
    expect(JSON.parse(started())).toMatchObject({ mapSource: 'none' });
    await replica.stop();
  });
});

const made = (result: string, url = rig.service.url) =>
  metric(url, `activity_sync_thumbnails_total{result="${result}"}`);
const warnings = () =>
  lines.map((line) => JSON.parse(line)).filter(({ level, component }) => level === 'warn' && component === 'thumbnail');
const answerWith = (status: number) => {
  tiles.answer = (_request, response) => response.writeHead(status).end();
};

/** Resolves when so many more pictures had to do without their map. */
async function untilWithoutMap(count: number, work: () => Promise<unknown>): Promise<void> {
  const before = (await made('withoutMap')) ?? Number.NaN;
  await work();
  await until(async () => (await made('withoutMap')) === before + count, 'the pictures without a map');
}

let routes = 0;
/** A new activity far from the others, so that no tile of its map is kept from before. */
async function addRoute(): Promise<string> {
  routes += 1;
  const points: LatLng[] = Array.from({ length: 300 }, (_, i) => [46.93 + i / 10_000, 2 * routes + i / 6000]);
  return (await rig.simulator.createActivityAndNotify(athleteId, { points })).id;
}

async function isOnMap(id: string): Promise<boolean> {
  const { png } = await untilThumbnail(rig, id);
  const { data } = await sharp(png).raw().toBuffer({ resolveWithObject: true });
  return data.subarray(0, 3).equals(Buffer.from([BLUE.r, BLUE.g, BLUE.b]));
}

const jobStates = async (id: string) =>
  (await rig.service.boss.findJobs('thumbnail', { key: id })).map((job) => job.state);

/** Lets the wait before the next drawing pass at once. */
async function untilDrawnAgain(id: string): Promise<void> {
  await rig.service.database.query(
    `UPDATE pgboss.job SET start_after = sync_now() WHERE name = 'thumbnail' AND state = 'retry' RETURNING pg_notify('activity_sync', 'thumbnail')`,
  );
  await until(async () => (await jobStates(id)).join() === 'completed', 'the second drawing');
}

describe('a map source that fails', () => {
  it('for good leaves the picture plain, which is counted, and warned of once however many there are', async () => {
    expect(await made('withoutMap')).toBe(0);
    answerWith(401);
    const ids: string[] = [];
    await untilWithoutMap(3, async () => {
      for (let n = 0; n < 3; n += 1) ids.push(await addRoute());
    });
    for (const id of ids) {
      expect(await isOnMap(id)).toBe(false);
      expect(await jobStates(id)).toEqual(['completed']);
    }
    expect(warnings()).toEqual([
      expect.objectContaining({
        message: 'thumbnails lack map tiles',
        error: `A tile of the map source ${new URL(tiles.origin).host} was answered with status 401.`,
      }),
    ]);
    expect(lines.join()).not.toContain(KEY);
  });

  it('temporarily has the picture redrawn, which is plain until then', async () => {
    answerWith(503);
    let id = '';
    await untilWithoutMap(1, async () => {
      id = await addRoute();
    });
    expect(await isOnMap(id)).toBe(false);
    expect(await jobStates(id)).toEqual(['retry']);
    tiles.answer = (_request, response) => sendImage(response, tiles.blueTile);
    await untilDrawnAgain(id);
    expect(await isOnMap(id)).toBe(true);
  });

  it('on only one tile has the picture redrawn too', async () => {
    tiles.requests = [];
    tiles.answer = (_request, response) =>
      tiles.requests.length === 1 ? response.writeHead(503).end() : sendImage(response, tiles.blueTile);
    const rendered = await made('rendered');
    const id = await addRoute();
    await until(async () => (await made('rendered')) === Number(rendered) + 1, 'the picture');
    expect(tiles.requests.length).toBeGreaterThan(1);
    expect(await jobStates(id)).toEqual(['retry']);
    await untilDrawnAgain(id);
  });

  it('does not matter to an activity without a route', async () => {
    answerWith(503);
    const [rendered, withoutMap] = [await made('rendered'), await made('withoutMap')];
    const { id } = await rig.simulator.createActivityAndNotify(athleteId, { kind: 'indoor' });
    await until(async () => (await made('rendered')) === Number(rendered) + 1, 'the picture');
    expect(await jobStates(id)).toEqual(['completed']);
    expect(await made('withoutMap')).toBe(withoutMap);
  });
});
