import { Writable } from 'node:stream';
import { describe, expect, it } from '@jest/globals';
import winston from 'winston';
import { createLogger, redactSecrets } from '../../src/infra/logger.ts';

const SECRET = 'tQ7-the-secret';

function start(options: { pretty?: boolean } = {}) {
  const lines: string[] = [];
  const logger = createLogger({ level: 'debug', secrets: [SECRET, undefined, 'abc'], pretty: options.pretty ?? false });
  logger.clear().add(
    new winston.transports.Stream({
      stream: new Writable({
        write: (line, _encoding, done) => {
          lines.push(String(line));
          done();
        },
      }),
    }),
  );
  return {
    logger,
    text: () => lines.join(''),
    entry: () => JSON.parse(lines.at(-1) ?? '{}') as Record<string, unknown>,
  };
}

describe('the log', () => {
  it('is one JSON object a line, with time, level, message and fields', () => {
    const { logger, entry } = start();
    logger.info('job stored', { component: 'fetch', activityId: '9223372036854775807', ms: 12 });
    expect(entry()).toEqual({
      level: 'info',
      message: 'job stored',
      component: 'fetch',
      activityId: '9223372036854775807',
      ms: 12,
      timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
    });
  });

  it('is readable on a terminal', () => {
    const { logger, text } = start({ pretty: true });
    logger.warn('job retry', { component: 'fetch', attempts: 2, detail: { a: 1 } });
    expect(text()).toMatch(/\d\d:\d\d:\d\d\.\d{3} .*warn.* fetch: job retry \(attempts=2 detail=\{"a":1\}\)/);
  });

  it('keeps an error’s name, message, stack, code and cause, and nothing else attached to it', () => {
    const { logger, entry } = start();
    const error = Object.assign(new TypeError('it broke', { cause: new Error('the cable') }), {
      code: '57P01',
      options: { headers: { authorization: 'Bearer x' } },
    });
    logger.error('a run ended', { error });
    expect(entry().error).toEqual({
      name: 'TypeError',
      message: 'it broke',
      stack: expect.stringContaining('it broke'),
      errorCode: '57P01',
      cause: 'the cable',
    });
  });
});

describe('secrets in the log', () => {
  it('are replaced wherever they are: message, fields, nested fields, errors', () => {
    const { logger, text } = start();
    logger.info(`with ${SECRET} in it`, { url: `https://x/?s=${SECRET}`, deep: { list: [{ text: `a ${SECRET} b` }] } });
    logger.error('failed', { error: new Error(`refused ${SECRET}`, { cause: new Error(SECRET) }) });
    expect(text()).not.toContain(SECRET);
    expect(text()).toContain('with [redacted] in it');
  });

  it.each([
    'accessToken',
    'refresh_token',
    'client_secret',
    'password',
    'Authorization',
    'cookie',
    'encryptionKey',
    'code',
  ])('fields named like one never show their value: %s', (name) => {
    const { logger, text } = start();
    logger.info('hello', { [name]: 'value-1', nested: { [name]: 'value-2' } });
    expect(text()).not.toMatch(/value-[12]/);
  });

  it('a route is as private as a secret', () => {
    const { logger, text } = start();
    logger.info('hello', { polyline: '_p~iF~ps|U', map: { summary_polyline: '_p~iF~ps|U' } });
    expect(text()).not.toContain('_p~iF');
  });

  it('a secret is taken literally, whatever its characters mean in a pattern', () => {
    const secret = '^.*+?()[]{}|$\\-/end';
    expect(redactSecrets(`a ${secret} b`, [secret])).toBe('a [redacted] b');
    expect(redactSecrets('nothing of it here', [secret])).toBe('nothing of it here');
    expect(redactSecrets('no secrets at all', [])).toBe('no secrets at all');
  });

  it('the longer of two secrets goes whole', () => {
    expect(redactSecrets('a-secret-and-more a-secret', ['a-secret', 'a-secret-and-more'])).toBe(
      '[redacted] [redacted]',
    );
  });

  it('are also found percent-encoded in an address or a form', () => {
    const secret = 's+cret/with spaces&';
    const text = `GET /x?client_secret=${encodeURIComponent(secret)} ${new URLSearchParams({ client_secret: secret })} ${secret}`;
    expect(redactSecrets(text, [secret])).toBe('GET /x?client_secret=[redacted] client_secret=[redacted] [redacted]');
  });

  it('too short a one is not searched for: it would blank out half the log', () => {
    const { logger, text } = start();
    logger.info('abcdef');
    expect(text()).toContain('abcdef');
  });
});
