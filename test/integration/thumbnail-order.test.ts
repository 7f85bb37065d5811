import type { ServerResponse } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { LatLng } from '../../src/domain/route.ts';
import { metric } from '../support/metric.ts';
import { type Rig, startRig } from '../support/service.ts';
import { untilThumbnail } from '../support/thumbnails.ts';
import { sendImage, startTileServer, type TileServer } from '../support/tile-server.ts';
import { until } from '../support/until.ts';

let rig: Rig;
let tiles: TileServer;

beforeAll(async () => {
  tiles = await startTileServer();
  rig = await startRig({ env: { SERVICE_ROLES: 'web,fetch' } });
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
});
afterAll(async () => {
  await rig.close();
  await tiles.close();
});

const routeAt = (latitude: number): LatLng[] =>
  Array.from({ length: 300 }, (_, i) => [latitude + i / 10_000, 7.4 + i / 6000]);

describe('a picture that takes longer than the next one', () => {
  it('does not replace it: the newest route is shown, whichever ends last', async () => {
    const held: ServerResponse[] = [];
    tiles.answer = (_request, response) => held.push(response);
    const map = `${tiles.origin}/{z}/{x}/{y}.png`;
    const slow = await rig.startReplica({ SERVICE_ROLES: 'thumbnail', THUMBNAIL_MAP_SOURCE: map });
    const { id } = await rig.simulator.createActivityAndNotify(await rig.connectAthlete(), { points: routeAt(46.93) });
    await until(() => held.length > 0, 'the first picture’s question for a tile');

    await rig.simulator.updateActivityAndNotify(id, { points: routeAt(47.5) });
    await rig.startReplica({ SERVICE_ROLES: 'thumbnail' });
    const { png } = await untilThumbnail(rig, id);

    tiles.answer = (_request, response) => sendImage(response, tiles.blueTile);
    for (const response of held) sendImage(response, tiles.blueTile);
    const superseded = 'activity_sync_thumbnails_total{result="superseded"}';
    await until(async () => (await metric(slow.url, superseded)) === 1, 'the end of the first picture');
    expect((await untilThumbnail(rig, id)).png.equals(png)).toBe(true);
  });
});
