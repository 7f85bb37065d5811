import { Writable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import winston from 'winston';
import { createLogger } from '../../src/infra/logger.ts';
import { type Rig, startRig } from '../support/service.ts';
import { startTileServer, type TileServer } from '../support/tile-server.ts';

const KEY = 'k3y-of-the-tile-server';
let tiles: TileServer;
let rig: Rig;
let lines: string[] = [];

beforeAll(async () => {
  // No secret is given to the logger: what is not in the line need not be taken out.
  const logger = createLogger({ level: 'debug', pretty: false });
  const stream = new Writable({
    write: (line, _encoding, done) => {
      lines.push(String(line));
      done();
    },
  });
  logger.clear().add(new winston.transports.Stream({ stream }));
  tiles = await startTileServer();
  rig = await startRig({
    logger,
    env: { THUMBNAIL_MAP_SOURCE: `${tiles.origin}/{z}/{x}/{y}.png?access=${KEY}` },
  });
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
    lines = [];
    const replica = await rig.startReplica({ THUMBNAIL_MAP_SOURCE: 'none' });
    expect(JSON.parse(started())).toMatchObject({ mapSource: 'none' });
    await replica.stop();
  });
});
