import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { sharp } from '../../src/thumbnail/image-library.ts';
import { createTileSource, type TileSource, type TileSourceOptions } from '../../src/thumbnail/tile-source.ts';

/** The colour of every tile. */
export const BLUE = { r: 40, g: 90, b: 200 };

/** A server of map tiles, and the tile sources that use it. */
export interface TileServer {
  origin: string;
  /** What arrived. */
  requests: IncomingMessage[];
  /** What a request is answered with; the blue tile until a test sets something else. */
  answer: (request: IncomingMessage, response: ServerResponse) => void;
  blueTile: Buffer;
  openSource(options?: Partial<TileSourceOptions>): TileSource;
  /** Closes the sources too. */
  close(): Promise<void>;
}

export async function startTileServer(): Promise<TileServer> {
  const blueTile = await flatTile(256);
  const sources: TileSource[] = [];
  const server = createServer((request, response) => {
    tiles.requests.push(request);
    tiles.answer(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const tiles: TileServer = {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests: [],
    answer: (_request, response) => sendImage(response, blueTile),
    blueTile,
    openSource: (options = {}) => {
      const source = createTileSource({
        urlTemplate: `${tiles.origin}/{z}/{x}/{y}.png`,
        userAgent: 'activity-sync-test',
        cacheMaxBytes: 1024 * 1024,
        timeoutMs: 5000,
        pauseMs: 60_000,
        ...options,
      });
      sources.push(source);
      return source;
    },
    close: async () => {
      for (const source of sources) source.close();
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
  return tiles;
}

/** A PNG of one colour. */
export function flatTile(edgePx: number): Promise<Buffer> {
  return sharp({ create: { width: edgePx, height: edgePx, channels: 3, background: BLUE } })
    .png()
    .toBuffer();
}

export function sendImage(response: ServerResponse, body: Buffer): void {
  response.writeHead(200, { 'content-type': 'image/png' }).end(body);
}
