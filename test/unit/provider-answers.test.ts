import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createProvider, type Provider } from '../../src/provider/client.ts';
import { createTransport, type Transport } from '../../src/provider/transport.ts';
import { answerJson, type HostileProvider, startHostileProvider } from '../support/hostile-provider.ts';

const MB = 1024 * 1024;
let hostile: HostileProvider;
let transport: Transport;
let provider: Provider;
beforeAll(async () => {
  hostile = await startHostileProvider();
  transport = createTransport({
    origin: hostile.origin,
    timeoutMs: 10_000,
    observer: { call: () => undefined, usage: () => undefined },
    userAgent: 'activity-sync-test',
    now: () => Date.now(),
  });
  provider = createProvider(transport, { origin: hostile.origin, clientId: '1', clientSecret: 'client-secret' });
});
afterAll(async () => {
  transport.close();
  await hostile.close();
});

const activity = { id: 1, athlete: { id: 2 }, name: 'Ride', start_date: '2025-05-06T12:00:00Z' };
const getActivity = () => provider.getActivity('access-token', '1');

describe('an answer that a retry would not change', () => {
  it.each([
    ['another activity', { ...activity, id: 3 }],
    ['a month 13', { ...activity, start_date: '2025-13-06T12:00:00Z' }],
    ['30 February', { ...activity, start_date: '2025-02-30T12:00:00Z' }],
    ['the year 0', { ...activity, start_date: '0000-01-01T00:00:00Z' }],
    ['the year 9999', { ...activity, start_date: '9999-01-01T00:00:00Z' }],
    ['more seconds than the database holds', { ...activity, moving_time: 1e300 }],
    ['200 levels of nesting', `{"a": ${'['.repeat(200)}${']'.repeat(200)}}`],
    ['a million levels of nesting', '['.repeat(1_000_000)],
    ['9 MB', JSON.stringify({ ...activity, description: 'x'.repeat(9 * MB) })],
  ])('is unusable: %s', async (_case, body) => {
    hostile.answer = (_call, response) => answerJson(response, 200, body);
    await expect(getActivity()).rejects.toMatchObject({ code: 'UNUSABLE' });
  });

  it('is unusable when it is small on the wire and large when decompressed, and costs no more than its bound', async () => {
    // Members of a gzip stream unpack to one text: 1 GB.
    const bomb = Buffer.concat(Array(64).fill(gzipSync(Buffer.alloc(16 * MB, ' '))));
    hostile.answer = (_call, response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' });
      response.end(bomb);
    };
    const before = process.memoryUsage.rss();
    await expect(getActivity()).rejects.toMatchObject({ code: 'UNUSABLE' });
    expect((process.memoryUsage.rss() - before) / MB).toBeLessThan(64);
  });

  it('is a list with more entries than are ever requested; none of them is checked', async () => {
    hostile.answer = (_call, response) => answerJson(response, 200, `[${'1,'.repeat(2_000_000)}1]`);
    const before = process.memoryUsage.rss();
    await expect(provider.listActivities('access-token', { page: 1, perPage: 200 })).rejects.toMatchObject({
      code: 'UNUSABLE',
    });
    expect((process.memoryUsage.rss() - before) / MB).toBeLessThan(128);
  });
});

describe('an answer that may be better next time', () => {
  it.each([
    ['not JSON', '<html>'],
    ['cut', '{"id": 1, "athlete": {"id": 2}'],
    ['another page that is JSON', '{}'],
    ['a start that is no text', { ...activity, start_date: 17 }],
  ])('is unreadable: %s', async (_case, body) => {
    hostile.answer = (_call, response) => answerJson(response, 200, body);
    await expect(getActivity()).rejects.toMatchObject({ code: 'UNREADABLE' });
  });
});

describe('an activity', () => {
  it('is read with 7 MB of what the service does not use, brackets in its texts included', async () => {
    hostile.answer = (_call, response) =>
      answerJson(response, 200, { ...activity, description: '[{"\\'.repeat((7 * MB) / 8) });
    expect((await getActivity()).detail.name).toBe('Ride');
  });
});

describe('an error with an endless body', () => {
  it('is read no further than 64 KiB, and keeps its status', async () => {
    let sent = 0;
    hostile.answer = (_call, response) => {
      response.writeHead(503, { 'content-type': 'application/json' });
      const write = () => {
        for (let room = true; room && !response.destroyed; sent += 65_536)
          room = response.write(Buffer.alloc(65_536, 'x'));
      };
      response.on('drain', write);
      write();
    };
    await expect(getActivity()).rejects.toMatchObject({ code: 'SERVER', status: 503 });
    expect(sent).toBeLessThan(16 * MB);
  });
});
