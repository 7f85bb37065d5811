import { once } from 'node:events';
import type { RequestListener } from 'node:http';
import type { Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, it } from '@jest/globals';
import { type HttpServer, LIMITS, listen } from '../../src/infra/http-server.ts';
import { openRawConnections, type RawConnections } from '../support/raw-connections.ts';
import { until } from '../support/until.ts';

let server: HttpServer;
let raw: RawConnections;
const echo: RequestListener = async (request, response) => {
  const body = await text(request).catch(() => undefined);
  if (body !== undefined) response.end(`${request.url} ${body.length}`);
};
const start = async (limits: Partial<typeof LIMITS> = {}, app = echo) => {
  server = await listen(app, 0, { ...LIMITS, ...limits });
  raw = openRawConnections(server.port);
};
afterEach(async () => {
  raw.close();
  await server.close();
});

const post = (announced: number, sent: string) =>
  `POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: ${announced}\r\n\r\n${sent}`;
const answerOf = async (socket: Socket) => (await text(socket)).split('\r\n');
const isAnswered = async () => (await fetch(`http://127.0.0.1:${server.port}/true`)).ok;

describe('a request that is too slow', () => {
  it.each([
    ['its headers', 'GET / HTTP/1.1\r\nHost: a\r\n', { headersMs: 200 }],
    ['its body', post(100, 'half of it'), { headersMs: 200, requestMs: 300 }],
  ])('is answered 408 when %s do not arrive', async (_part, sent, limits) => {
    await start({ ...limits, checkEveryMs: 50 });
    const [status, ...headers] = await answerOf(await raw.open(sent));
    expect(status).toBe('HTTP/1.1 408 Request Timeout');
    expect(headers).toContain('X-Content-Type-Options: nosniff');
  });
});

describe('more connections than are served', () => {
  it('close the one that has waited longest, and a true request is answered', async () => {
    await start({ connections: 20 });
    for (let n = 0; n < 60; n += 1) await raw.open(n % 2 ? 'GET / HTTP/1.1\r\n' : '');
    await until(() => raw.alive <= 20, 'the end of the oldest');
    expect(raw.alive).toBeGreaterThan(15);
    expect(await isAnswered()).toBe(true);
  });
});

describe('a connection whose request is answered before its body is there', () => {
  it('gives way to others like any that waits, once the body has come', async () => {
    const { promise: isWhole, resolve } = Promise.withResolvers<void>();
    await start({ connections: 2 }, (request, response) => {
      request.once('end', resolve);
      response.end('too early');
    });
    const first = await raw.open(post(4, ''));
    await once(first, 'data');
    first.write('true');
    await isWhole;
    const others = [await raw.open(), await raw.open()];
    await until(() => first.destroyed, 'the end of the oldest');
    expect(others.map(({ destroyed }) => destroyed)).toEqual([false, false]);
  });
});

describe('more bytes of unfinished bodies than are kept', () => {
  it('end the oldest of them, and neither a true request nor a connection that announced none', async () => {
    await start({ unfinishedBodyBytes: 10_000 });
    const idle = await raw.open();
    for (let n = 0; n < 40; n += 1) await raw.open(post(1000, 'x'.repeat(999)));
    await until(() => raw.alive <= 11, 'the end of the oldest');
    expect(idle.destroyed).toBe(false);
    expect(await isAnswered()).toBe(true);
    idle.write('POST /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 4\r\n\r\ntrue');
    expect(await text(idle)).toContain('/x 4');
  });

  it('are counted no more once a body is whole or its connection is gone', async () => {
    await start({ unfinishedBodyBytes: 10_000 });
    for (let n = 0; n < 30; n += 1) {
      const answer = await fetch(`http://127.0.0.1:${server.port}/x`, { method: 'POST', body: 'x'.repeat(5000) });
      expect(await answer.text()).toBe('/x 5000');
    }
    for (let n = 0; n < 30; n += 1) (await raw.open(post(5000, 'x'))).destroy();
    const first = await raw.open(post(5000, 'x'));
    const second = await raw.open(post(5000, 'x'));
    expect(await isAnswered()).toBe(true);
    expect([first.destroyed, second.destroyed]).toEqual([false, false]);
  });
});

describe('a request that is not HTTP', () => {
  it.each([
    ['a line of nonsense', 'NONSENSE\r\n\r\n', 'HTTP/1.1 400 Bad Request'],
    [
      'a header that is too long',
      `GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`,
      'HTTP/1.1 431 Request Header Fields Too Large',
    ],
    ['a request without a host', 'GET / HTTP/1.1\r\nConnection: close\r\n\r\n', 'HTTP/1.1 400 Bad Request'],
    [
      'two lengths',
      'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n',
      'HTTP/1.1 400 Bad Request',
    ],
  ])('is answered with the security headers: %s', async (_case, sent, expected) => {
    await start();
    const [status, ...headers] = await answerOf(await raw.open(sent));
    expect(status).toBe(expected);
    for (const name of [
      'Content-Security-Policy',
      'Strict-Transport-Security',
      'X-Content-Type-Options',
      'X-Frame-Options',
    ])
      expect(headers.filter((header) => header.startsWith(`${name}: `))).toHaveLength(1);
  });
});
