import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';

import type { LatLng } from '../../src/domain/route.ts';
import { sharp } from '../../src/thumbnail/image-library.ts';
import { renderThumbnail } from '../../src/thumbnail/render-thumbnail.ts';
import { BLUE, sendImage, startTileServer, type TileServer } from '../support/tile-server.ts';

const ROUTE: LatLng[] = Array.from({ length: 300 }, (_unused, i) => [46.93 + i / 10_000, 7.42 + i / 6000]);

let server: TileServer;
beforeEach(async () => {
  server = await startTileServer();
});
afterEach(() => server.close());

describe('a thumbnail on a map', () => {
  it('shows the tiles under the route and asks for at most nine', async () => {
    for (const sizePx of [128, 256, 512, 600, 1024]) {
      server.requests = [];
      const thumbnail = await renderThumbnail({ route: ROUTE, sizePx, debug: false, map: server.openSource() });
      expect(server.requests.length).toBeGreaterThan(0);
      expect(server.requests.length).toBeLessThanOrEqual(9);
      expect(thumbnail.missingTiles).toBe(0);
      const { data } = await sharp(thumbnail.png).raw().toBuffer({ resolveWithObject: true });
      expect([...data.subarray(0, 3)]).toEqual([BLUE.r, BLUE.g, BLUE.b]);
    }
  });

  it('leaves no seam between tiles', async () => {
    for (const sizePx of [256, 333, 777]) {
      const { png } = await renderThumbnail({ route: [[46.9, 7.4]], sizePx, debug: false, map: server.openSource() });
      const { data } = await sharp(png)
        .extract({ left: 0, top: 0, width: sizePx, height: Math.floor(sizePx / 3) })
        .raw()
        .toBuffer({ resolveWithObject: true });
      const blue = Buffer.from([BLUE.r, BLUE.g, BLUE.b]);
      expect(data.equals(Buffer.alloc(data.length, blue))).toBe(true);
    }
  });

  it('writes the attribution into a corner', async () => {
    const [short, long] = await Promise.all(
      ['A', '© OpenStreetMap contributors'].map(async (attribution) => {
        const map = server.openSource({ attribution });
        const { png } = await renderThumbnail({ route: [[46.9, 7.4]], sizePx: 256, debug: false, map });
        return countPale(png, { left: 80, top: 240, width: 176, height: 16 });
      }),
    );
    expect(short).toBeLessThan(200);
    expect(long).toBeGreaterThan(1000);
  });

  it('shows the plain background where a tile is missing, and says so', async () => {
    server.answer = (request, response) =>
      request.url?.includes('/1441') ? response.writeHead(404).end() : sendImage(response, server.blueTile);
    const thumbnail = await renderThumbnail({ route: ROUTE, sizePx: 256, debug: false, map: server.openSource() });
    expect(thumbnail.missingTiles).toBeGreaterThan(0);
    expect(thumbnail.missingTiles).toBeLessThan(server.requests.length);
    expect(thumbnail.tileProblem).toMatch(
      /^The tile 12\/\d+\/1441 of the map source 127\.0\.0\.1:\d+ .* status 404\.$/,
    );
  });

  it('is the plain picture without attribution when no tile comes', async () => {
    server.answer = (_request, response) => response.writeHead(503).end();
    const [bare, plain] = await Promise.all(
      [server.openSource(), undefined].map((map) =>
        renderThumbnail({ route: [[46.9, 7.4]], sizePx: 256, debug: false, map }),
      ),
    );
    const lowerEdge = { left: 0, top: 200, width: 256, height: 56 };
    const [bareEdge, plainEdge] = await Promise.all(
      [bare, plain].map((thumbnail) => sharp(thumbnail?.png).extract(lowerEdge).raw().toBuffer()),
    );
    expect(bare?.missingTiles).toBe(server.requests.length);
    expect(bareEdge?.equals(plainEdge ?? Buffer.alloc(0))).toBe(true);
  });

  it('asks for no tile without a route', async () => {
    await renderThumbnail({ route: [], sizePx: 256, debug: false, map: server.openSource() });
    expect(server.requests).toHaveLength(0);
  });

  it('takes the tiles on both sides of the antimeridian', async () => {
    const route: LatLng[] = [
      [0.1, 179.9],
      [0.2, -179.9],
    ];
    const { zoom } = await renderThumbnail({ route, sizePx: 256, debug: false, map: server.openSource() });
    const columns = new Set(server.requests.map(({ url }) => Number(url?.split('/')[2])));
    expect(columns).toEqual(new Set([0, 2 ** (zoom ?? 0) - 1]));
  });

  it('stops waiting for tiles when its signal aborts', async () => {
    const stop = new AbortController();
    const reason = new Error('shutting down');
    server.answer = () => stop.abort(reason);
    const request = { route: ROUTE, sizePx: 256, debug: false, map: server.openSource(), signal: stop.signal };
    await expect(renderThumbnail(request)).rejects.toBe(reason);
  });
});

async function countPale(
  png: Buffer,
  area: { left: number; top: number; width: number; height: number },
): Promise<number> {
  const pixels = await sharp(png).extract(area).greyscale().raw().toBuffer();
  return pixels.filter((brightness) => brightness > 180).length;
}
