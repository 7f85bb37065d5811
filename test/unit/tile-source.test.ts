import type { ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { flatTile, sendImage, startTileServer, type TileServer } from '../support/tile-server.ts';
import { until } from '../support/until.ts';

const TILE = { z: 12, x: 2132, y: 1440 };

let server: TileServer;
beforeEach(async () => {
  server = await startTileServer();
});
afterEach(() => server.close());

describe('a tile source', () => {
  it('names the service to the server and fills the template', async () => {
    await server.openSource({ userAgent: 'activity-sync/1.2 (+https://sync.example.org)' }).getTile(TILE);
    expect(server.requests[0]?.url).toBe('/12/2132/1440.png');
    expect(server.requests[0]?.headers['user-agent']).toBe('activity-sync/1.2 (+https://sync.example.org)');
  });

  it('requests a kept tile once', async () => {
    const source = server.openSource();
    const first = await source.getTile(TILE);
    expect(await source.getTile(TILE)).toBe(first);
    expect(server.requests).toHaveLength(1);
  });

  it('requests a tile that several pictures need at the same time once', async () => {
    const source = server.openSource();
    const tiles = await Promise.all(Array.from({ length: 20 }, () => source.getTile(TILE)));
    expect(new Set(tiles).size).toBe(1);
    expect(server.requests).toHaveLength(1);
  });

  it('evicts the least recently used tile when its memory is full', async () => {
    const { length } = await server.openSource().getTile(TILE);
    server.requests = [];
    const source = server.openSource({ cacheMaxBytes: 2 * length });
    for (const x of [1, 2, 1, 3, 1, 2]) await source.getTile({ z: 12, x, y: 1 });
    expect(server.requests.map(({ url }) => url?.split('/')[2])).toEqual(['1', '2', '3', '2']);
  });

  it('keeps to its memory limit, however large the tiles are', async () => {
    const [small, large] = [await flatTile(32), await flatTile(512)];
    const isLarge = (url: string | undefined) => url?.startsWith('/12/9') ?? false;
    server.answer = (request, response) => sendImage(response, isLarge(request.url) ? large : small);
    const sizeOf = async (x: number) => (await server.openSource().getTile({ z: 12, x, y: 1 })).length;
    const [smallBytes, largeBytes] = [await sizeOf(1), await sizeOf(9)];
    expect(largeBytes).toBeGreaterThan(2 * smallBytes);
    server.requests = [];
    const source = server.openSource({ cacheMaxBytes: largeBytes + smallBytes });
    for (const x of [1, 2, 3, 9, 2, 3, 1, 2, 3]) await source.getTile({ z: 12, x, y: 1 });
    // Beside the large one there is room for one small one; without it for three.
    expect(server.requests.map(({ url }) => url?.split('/')[2])).toEqual(['1', '2', '3', '9', '2', '3', '1']);
  });

  it('retries after a failure', async () => {
    const source = server.openSource();
    server.answer = (_request, response) => response.writeHead(500).end();
    await expect(source.getTile(TILE)).rejects.toThrow('was answered with status 500');
    server.answer = (_request, response) => sendImage(response, server.blueTile);
    await expect(source.getTile(TILE)).resolves.toBeInstanceOf(Buffer);
  });

  it('does not follow a redirect', async () => {
    server.answer = (_request, response) => response.writeHead(302, { location: '/elsewhere.png' }).end();
    await expect(server.openSource().getTile(TILE)).rejects.toThrow('was answered with status 302');
    expect(server.requests).toHaveLength(1);
  });

  it.each<[string, string, (response: ServerResponse) => void]>([
    [
      'a web page',
      'came as text/html',
      (response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<p>'),
    ],
    ['a document called an image', 'is not a PNG', (response) => sendImage(response, Buffer.from('<svg xmlns="x"/>'))],
    ['a damaged image', 'is not a PNG', (response) => sendImage(response, server.blueTile.subarray(0, 90))],
    ['more than 256 KiB', 'is larger than 262144 bytes', (response) => sendImage(response, Buffer.alloc(300_000, 7))],
    ['nothing before the connection ends', 'could not be fetched (ECONNRESET)', (response) => response.destroy()],
  ])('refuses %s', async (_case, message, send) => {
    server.answer = (_request, response) => send(response);
    await expect(server.openSource().getTile(TILE)).rejects.toThrow(message);
  });

  it('refuses an image of more pixels than a tile has', async () => {
    const vast = await flatTile(2000);
    server.answer = (_request, response) => sendImage(response, vast);
    await expect(server.openSource().getTile(TILE)).rejects.toThrow('is not a PNG');
  });

  it('waits no longer than its limit', async () => {
    server.answer = () => undefined;
    await expect(server.openSource({ timeoutMs: 50 }).getTile(TILE)).rejects.toThrow('did not come in time');
  });

  it('pauses requests to a server after four timeouts in a row', async () => {
    server.answer = () => undefined;
    const source = server.openSource({ timeoutMs: 50, pauseMs: 1000 });
    const ask = (x: number) => source.getTile({ z: 12, x, y: 1 });
    for (const x of [1, 2, 3, 4]) await expect(ask(x)).rejects.toThrow('did not come in time');
    server.answer = (_request, response) => sendImage(response, server.blueTile);
    await expect(ask(5)).rejects.toThrow('was not requested, since others did not come in time');
    expect(server.requests).toHaveLength(4);
    const isThere = () =>
      ask(5).then(
        () => true,
        () => false,
      );
    await until(isThere, 'the tile after the pause');
  });

  it('keeps using a server that is late with only some tiles', async () => {
    const source = server.openSource({ timeoutMs: 250 });
    for (const x of [1, 2, 3, 4, 5, 6, 7, 8]) {
      const isLate = x % 4 !== 0;
      server.answer = (_request, response) => isLate || response.writeHead(500).end();
      await expect(source.getTile({ z: 12, x, y: 1 })).rejects.toThrow(isLate ? 'in time' : 'status 500');
    }
    expect(server.requests).toHaveLength(8);
  });

  it('keeps a key in its address out of its errors', async () => {
    server.answer = (_request, response) => response.destroy();
    const source = server.openSource({ urlTemplate: `${server.origin}/{z}/{x}/{y}.png?key=s3cret` });
    const error = await source.getTile(TILE).catch((reason: unknown) => reason);
    expect(server.requests[0]?.url).toContain('key=s3cret');
    expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toContain('s3cret');
  });

  it('lets one caller give up without cancelling the tile for the others', async () => {
    const source = server.openSource();
    const stop = new AbortController();
    server.answer = (_request, response) => {
      stop.abort(new Error('gave up'));
      sendImage(response, server.blueTile);
    };
    const impatient = source.getTile(TILE, stop.signal);
    const patient = source.getTile(TILE);
    await expect(impatient).rejects.toThrow('gave up');
    await expect(patient).resolves.toBeInstanceOf(Buffer);
  });

  it('ends current requests when it is closed', async () => {
    const source = server.openSource();
    server.answer = () => source.close();
    await expect(source.getTile(TILE)).rejects.toThrow('could not be fetched');
  });

  it.each([
    ['https://tile.openstreetmap.org/{z}/{x}/{y}.png', undefined, '© OpenStreetMap contributors'],
    ['https://tiles.example.org/{z}/{x}/{y}.png', undefined, 'Map: tiles.example.org'],
    ['https://tiles.example.org/{z}/{x}/{y}.png', '© Example', '© Example'],
  ])('attributes %s with %s as "%s"', (urlTemplate, attribution, text) => {
    expect(server.openSource({ urlTemplate, attribution }).attribution).toBe(text);
  });

  it.each([
    'tiles/{z}/{x}/{y}',
    'ftp://tiles.example.org/{z}/{x}/{y}',
    'https://tiles.example.org/{z}/{x}.png',
    'https://{z}.example.org/{z}/{x}/{y}.png',
  ])('refuses the template %s', (urlTemplate) => {
    expect(() => server.openSource({ urlTemplate })).toThrow('must be an http or https address');
  });
});
