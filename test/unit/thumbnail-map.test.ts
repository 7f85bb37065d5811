import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';

import type { LatLng } from '../../src/domain/route.ts';
import { sharp } from '../../src/thumbnail/image-library.ts';
import { renderThumbnail } from '../../src/thumbnail/render-thumbnail.ts';
import { createTileSource, type TileSource, type TileSourceOptions } from '../../src/thumbnail/tile-source.ts';

const TILE = { z: 12, x: 2132, y: 1440 };
const ROUTE: LatLng[] = Array.from({ length: 300 }, (_unused, i) => [46.93 + i / 10_000, 7.42 + i / 6000]);
const BLUE = { r: 40, g: 90, b: 200 };

let server: Server;
let requests: IncomingMessage[];
let answer: (request: IncomingMessage, response: ServerResponse) => void;
let blueTile: Buffer;
const sources: TileSource[] = [];

beforeEach(async () => {
  blueTile = await flatTile(256);
  requests = [];
  answer = (_request, response) => sendImage(response, blueTile);
  server = createServer((request, response) => {
    requests.push(request);
    answer(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});

afterEach(async () => {
  for (const source of sources.splice(0)) source.close();
  server.close();
  server.closeAllConnections();
  await once(server, 'close');
});

describe('a thumbnail on a map', () => {
  it('shows the tiles under the route and asks for at most nine', async () => {
    for (const sizePx of [128, 256, 512, 600, 1024]) {
      requests = [];
      const thumbnail = await renderThumbnail({ route: ROUTE, sizePx, debug: false, map: openSource() });
      expect(requests.length).toBeGreaterThan(0);
      expect(requests.length).toBeLessThanOrEqual(9);
      expect(thumbnail.missingTiles).toBe(0);
      const { data } = await sharp(thumbnail.png).raw().toBuffer({ resolveWithObject: true });
      expect([...data.subarray(0, 3)]).toEqual([BLUE.r, BLUE.g, BLUE.b]);
    }
  });

  it('leaves no seam between tiles', async () => {
    for (const sizePx of [256, 333, 777]) {
      const { png } = await renderThumbnail({ route: [[46.9, 7.4]], sizePx, debug: false, map: openSource() });
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
        const map = openSource({ attribution });
        const { png } = await renderThumbnail({ route: [[46.9, 7.4]], sizePx: 256, debug: false, map });
        return countPale(png, { left: 80, top: 240, width: 176, height: 16 });
      }),
    );
    expect(short).toBeLessThan(200);
    expect(long).toBeGreaterThan(1000);
  });

  it('shows the plain background where a tile is missing, and says so', async () => {
    answer = (request, response) =>
      request.url?.includes('/1441') ? response.writeHead(404).end() : sendImage(response, blueTile);
    const thumbnail = await renderThumbnail({ route: ROUTE, sizePx: 256, debug: false, map: openSource() });
    expect(thumbnail.missingTiles).toBeGreaterThan(0);
    expect(thumbnail.missingTiles).toBeLessThan(requests.length);
    expect(thumbnail.tileProblem).toMatch(
      /^The tile 12\/\d+\/1441 of the map source 127\.0\.0\.1:\d+ .* status 404\.$/,
    );
  });

  it('is the plain picture without attribution when no tile comes', async () => {
    answer = (_request, response) => response.writeHead(503).end();
    const [bare, plain] = await Promise.all(
      [openSource(), undefined].map((map) => renderThumbnail({ route: [[46.9, 7.4]], sizePx: 256, debug: false, map })),
    );
    const lowerEdge = { left: 0, top: 200, width: 256, height: 56 };
    const [bareEdge, plainEdge] = await Promise.all(
      [bare, plain].map((thumbnail) => sharp(thumbnail?.png).extract(lowerEdge).raw().toBuffer()),
    );
    expect(bare?.missingTiles).toBe(requests.length);
    expect(bareEdge?.equals(plainEdge ?? Buffer.alloc(0))).toBe(true);
  });

  it('asks for no tile without a route', async () => {
    await renderThumbnail({ route: [], sizePx: 256, debug: false, map: openSource() });
    expect(requests).toHaveLength(0);
  });

  it('takes the tiles on both sides of the antimeridian', async () => {
    const route: LatLng[] = [
      [0.1, 179.9],
      [0.2, -179.9],
    ];
    const { zoom } = await renderThumbnail({ route, sizePx: 256, debug: false, map: openSource() });
    const columns = new Set(requests.map(({ url }) => Number(url?.split('/')[2])));
    expect(columns).toEqual(new Set([0, 2 ** (zoom ?? 0) - 1]));
  });

  it('stops waiting for tiles when its signal aborts', async () => {
    const stop = new AbortController();
    const reason = new Error('shutting down');
    answer = () => stop.abort(reason);
    const request = { route: ROUTE, sizePx: 256, debug: false, map: openSource(), signal: stop.signal };
    await expect(renderThumbnail(request)).rejects.toBe(reason);
  });
});

describe('a tile source', () => {
  it('names the service to the server and fills the template', async () => {
    await openSource({ userAgent: 'activity-sync/1.2 (+https://sync.example.org)' }).getTile(TILE);
    expect(requests[0]?.url).toBe('/12/2132/1440.png');
    expect(requests[0]?.headers['user-agent']).toBe('activity-sync/1.2 (+https://sync.example.org)');
  });

  it('asks once for a tile that it keeps', async () => {
    const source = openSource();
    const first = await source.getTile(TILE);
    expect(await source.getTile(TILE)).toBe(first);
    expect(requests).toHaveLength(1);
  });

  it('asks once for a tile that several pictures want at the same time', async () => {
    const source = openSource();
    const tiles = await Promise.all(Array.from({ length: 20 }, () => source.getTile(TILE)));
    expect(new Set(tiles).size).toBe(1);
    expect(requests).toHaveLength(1);
  });

  it('gives up the tile that was used longest ago when its memory is full', async () => {
    const source = openSource({ cacheMaxTiles: 2 });
    for (const x of [1, 2, 1, 3, 1, 2]) await source.getTile({ z: 12, x, y: 1 });
    expect(requests.map(({ url }) => url?.split('/')[2])).toEqual(['1', '2', '3', '2']);
  });

  it('asks again after a failure', async () => {
    const source = openSource();
    answer = (_request, response) => response.writeHead(500).end();
    await expect(source.getTile(TILE)).rejects.toThrow('was answered with status 500');
    answer = (_request, response) => sendImage(response, blueTile);
    await expect(source.getTile(TILE)).resolves.toBeInstanceOf(Buffer);
  });

  it('does not follow a redirect', async () => {
    answer = (_request, response) => response.writeHead(302, { location: '/elsewhere.png' }).end();
    await expect(openSource().getTile(TILE)).rejects.toThrow('was answered with status 302');
    expect(requests).toHaveLength(1);
  });

  it.each<[string, string, (response: ServerResponse) => void]>([
    [
      'a web page',
      'came as text/html',
      (response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<p>'),
    ],
    ['a document called an image', 'is not a PNG', (response) => sendImage(response, Buffer.from('<svg xmlns="x"/>'))],
    ['a damaged image', 'is not a PNG', (response) => sendImage(response, blueTile.subarray(0, 90))],
    ['more than 256 KiB', 'is larger than 262144 bytes', (response) => sendImage(response, Buffer.alloc(300_000, 7))],
    ['nothing before the connection ends', 'could not be fetched (ECONNRESET)', (response) => response.destroy()],
  ])('refuses %s', async (_case, message, send) => {
    answer = (_request, response) => send(response);
    await expect(openSource().getTile(TILE)).rejects.toThrow(message);
  });

  it('refuses an image of more pixels than a tile has', async () => {
    const vast = await flatTile(2000);
    answer = (_request, response) => sendImage(response, vast);
    await expect(openSource().getTile(TILE)).rejects.toThrow('is not a PNG');
  });

  it('waits no longer than its limit', async () => {
    answer = () => undefined;
    await expect(openSource({ timeoutMs: 50 }).getTile(TILE)).rejects.toThrow('did not come in time');
  });

  it('keeps a key in its address out of its errors', async () => {
    answer = (_request, response) => response.destroy();
    const source = openSource({ urlTemplate: `${origin()}/{z}/{x}/{y}.png?key=s3cret` });
    const error = await source.getTile(TILE).catch((reason: unknown) => reason);
    expect(requests[0]?.url).toContain('key=s3cret');
    expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toContain('s3cret');
  });

  it('lets one caller give up without taking the tile from the others', async () => {
    const source = openSource();
    const stop = new AbortController();
    answer = (_request, response) => {
      stop.abort(new Error('gave up'));
      sendImage(response, blueTile);
    };
    const impatient = source.getTile(TILE, stop.signal);
    const patient = source.getTile(TILE);
    await expect(impatient).rejects.toThrow('gave up');
    await expect(patient).resolves.toBeInstanceOf(Buffer);
  });

  it('ends what is under way when it is closed', async () => {
    const source = openSource();
    answer = () => source.close();
    await expect(source.getTile(TILE)).rejects.toThrow('could not be fetched');
  });

  it.each([
    ['https://tile.openstreetmap.org/{z}/{x}/{y}.png', undefined, '© OpenStreetMap contributors'],
    ['https://tiles.example.org/{z}/{x}/{y}.png', undefined, 'Map: tiles.example.org'],
    ['https://tiles.example.org/{z}/{x}/{y}.png', '© Example', '© Example'],
  ])('attributes %s with %s as "%s"', (urlTemplate, attribution, text) => {
    expect(openSource({ urlTemplate, attribution }).attribution).toBe(text);
  });

  it.each([
    'tiles/{z}/{x}/{y}',
    'ftp://tiles.example.org/{z}/{x}/{y}',
    'https://tiles.example.org/{z}/{x}.png',
    'https://{z}.example.org/{z}/{x}/{y}.png',
  ])('refuses the template %s', (urlTemplate) => {
    expect(() => openSource({ urlTemplate })).toThrow('must be an http or https address');
  });
});

function openSource(options: Partial<TileSourceOptions> = {}): TileSource {
  const source = createTileSource({
    urlTemplate: `${origin()}/{z}/{x}/{y}.png`,
    userAgent: 'activity-sync-test',
    cacheMaxTiles: 100,
    timeoutMs: 5000,
    ...options,
  });
  sources.push(source);
  return source;
}

function origin(): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function flatTile(edgePx: number): Promise<Buffer> {
  return sharp({ create: { width: edgePx, height: edgePx, channels: 3, background: BLUE } })
    .png()
    .toBuffer();
}

async function countPale(
  png: Buffer,
  area: { left: number; top: number; width: number; height: number },
): Promise<number> {
  const pixels = await sharp(png).extract(area).greyscale().raw().toBuffer();
  return pixels.filter((brightness) => brightness > 180).length;
}

function sendImage(response: ServerResponse, body: Buffer): void {
  response.writeHead(200, { 'content-type': 'image/png' }).end(body);
}
