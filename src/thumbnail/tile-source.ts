import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';

import got, { type Got, TimeoutError } from 'got';

import { createServerPause, type ServerPause } from './server-pause.ts';
import { createTileCache } from './tile-cache.ts';
import { normaliseTile } from './tile-image.ts';

/** The address of a tile: zoom level, column from 180° W, row from the north. */
export interface TileAddress {
  z: number;
  x: number;
  y: number;
}

/** A server of map tiles, 256 px squared at their own zoom level. */
export interface TileSource {
  /** The server, with its port where that is not the usual one: the only part of an address with a key that may be logged. */
  readonly host: string;
  /** What must be written on a picture that shows its tiles. */
  readonly attribution: string;
  /**
   * The tile as a PNG, from memory where possible; a parallel request for the same tile joins the first.
   * @throws TileError when the server does not give a usable image; the signal's reason when aborted.
   */
  getTile(tile: TileAddress, signal?: AbortSignal): Promise<Buffer>;
  /** Ends current requests and idle connections. */
  close(): void;
}

export interface TileSourceOptions {
  /** An http or https address with {z}, {x} and {y} in its path or query. */
  urlTemplate: string;
  /** Identifies this service to the tile server, e.g. "activity-sync/0.1 (+https://sync.example.org)". */
  userAgent: string;
  /** How much memory kept tiles take: some 20 KiB each for a drawn map, at most about 800 KiB for aerial photographs. */
  cacheMaxBytes: number;
  /** The whole time allowed for one tile, in milliseconds. */
  timeoutMs: number;
  /** How long requests pause after several late tiles in a row, in milliseconds. */
  pauseMs: number;
  /** Default: OpenStreetMap's text for its own servers, otherwise the name of the server. */
  attribution?: string | undefined;
  client?: Got;
}

/** A tile that could not be loaded. The message names server and tile, never the address with its key. */
export class TileError extends Error {
  override name = 'TileError';
  /** The message without the tile, which would reveal a place: for the log. */
  readonly withoutPlace: string;
  /** Whether the server may give the tile later: it was down, too slow, busy or out of order. */
  readonly mayComeLater: boolean;

  constructor(tile: NamedTile, what: string, options: { mayComeLater: boolean }) {
    super(`The tile ${tile.name} of the map source ${tile.host} ${what}.`);
    this.withoutPlace = `A tile of the map source ${tile.host} ${what}.`;
    this.mayComeLater = options.mayComeLater;
  }
}

interface NamedTile {
  name: string;
  host: string;
}

const LATER = { mayComeLater: true };
const NEVER = { mayComeLater: false };
const MAX_TILE_BYTES = 256 * 1024;
const MAX_CONNECTIONS = 4;

/**
 * Opens a source of map tiles. Only the template's own origin is ever contacted: redirects are not followed.
 * A tile is requested once and not retried, so that a picture waits at most `timeoutMs` for its map.
 * @throws TypeError when the template is not an http address with the three placeholders after its host.
 */
export function createTileSource(options: TileSourceOptions): TileSource {
  const host = checkTemplate(options.urlTemplate);
  const closing = new AbortController();
  const agent = {
    http: new HttpAgent({ keepAlive: true, maxSockets: MAX_CONNECTIONS }),
    https: new HttpsAgent({ keepAlive: true, maxSockets: MAX_CONNECTIONS }),
  };
  const client = (options.client ?? got).extend({
    agent,
    headers: { 'user-agent': options.userAgent, accept: 'image/png,image/jpeg,image/webp' },
    followRedirect: false,
    throwHttpErrors: false,
    decompress: false,
    retry: { limit: 0 },
    timeout: { request: options.timeoutMs },
    signal: closing.signal,
  });
  const cache = createTileCache(options.cacheMaxBytes);
  // As many as are requested at once: a server that is merely slow with one of them stays in use.
  const pause = createServerPause(MAX_CONNECTIONS, options.pauseMs);

  const load = async (tile: TileAddress): Promise<Buffer> => {
    const named = { name: `${tile.z}/${tile.x}/${tile.y}`, host };
    if (pause.isOn()) throw new TileError(named, 'was not requested, since others did not come in time', LATER);
    const body = await download(client, fillTemplate(options.urlTemplate, tile), named, pause);
    const png = await normaliseTile(body);
    if (png === undefined) throw new TileError(named, 'is not a PNG, JPEG or WebP image', NEVER);
    return png;
  };

  return {
    host,
    attribution: options.attribution ?? attributionFor(host),
    getTile(tile, signal) {
      return waitUnlessAborted(
        cache.get(`${tile.z}/${tile.x}/${tile.y}`, () => load(tile)),
        signal,
      );
    },
    close() {
      closing.abort(new Error(`The map source ${host} was closed.`));
      agent.http.destroy();
      agent.https.destroy();
    },
  };
}

function checkTemplate(urlTemplate: string): string {
  const isComplete = ['{z}', '{x}', '{y}'].every((placeholder) => urlTemplate.includes(placeholder));
  const url = isComplete && URL.canParse(urlTemplate) ? new URL(urlTemplate) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || /[{}]|%7b/i.test(url.host)) {
    throw new TypeError(
      'The map source must be an http or https address with {z}, {x} and {y} after its host, ' +
        'e.g. https://tiles.example.org/{z}/{x}/{y}.png',
    );
  }
  return url.host;
}

function attributionFor(host: string): string {
  return /(^|\.)openstreetmap\.org$/.test(host) ? '© OpenStreetMap contributors' : `Map: ${host}`;
}

function fillTemplate(urlTemplate: string, tile: TileAddress): string {
  return urlTemplate
    .replaceAll('{z}', String(tile.z))
    .replaceAll('{x}', String(tile.x))
    .replaceAll('{y}', String(tile.y));
}

async function download(client: Got, url: string, tile: NamedTile, pause: ServerPause): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    const stream = client.stream(url);
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > MAX_TILE_BYTES) throw new TileError(tile, `is larger than ${MAX_TILE_BYTES} bytes`, NEVER);
      chunks.push(chunk);
    }
    const response = stream.response;
    const status = response?.statusCode ?? 0;
    if (status !== 200) {
      const mayComeLater = status === 408 || status === 429 || status >= 500;
      throw new TileError(tile, `was answered with status ${status}`, { mayComeLater });
    }
    const contentType = response?.headers['content-type'] ?? 'no type';
    if (!contentType.startsWith('image/')) throw new TileError(tile, `came as ${contentType}, not as an image`, NEVER);
  } catch (error) {
    pause.note(error instanceof TimeoutError);
    throw error instanceof TileError ? error : describeFailure(error, tile);
  }
  pause.note(false);
  return Buffer.concat(chunks, bytes);
}

/** Without the client's own message and cause: they hold the address, and that may hold an API key. */
function describeFailure(error: unknown, tile: NamedTile): TileError {
  if (error instanceof TimeoutError) return new TileError(tile, 'did not come in time', LATER);
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
  return new TileError(tile, `could not be fetched (${code})`, LATER);
}

/** A caller that gives up leaves the shared request running for the others. */
function waitUnlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const giveUp = (): void => reject(signal.reason);
    if (signal.aborted) giveUp();
    signal.addEventListener('abort', giveUp, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', giveUp));
  });
}
