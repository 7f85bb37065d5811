import { describe, expect, it } from '@jest/globals';
import { errorOfAnswer } from '../../src/provider/errors.ts';

const NOW = Date.parse('2025-05-06T12:00:00Z');
const errorOf = (status: number, body = '', headers: { retryAfter?: string; date?: string } = {}) =>
  errorOfAnswer('GET /api/v3/x', { status, body, retryAfter: headers.retryAfter, date: headers.date, now: NOW }, []);

describe('an answer that is not 2xx', () => {
  it.each([
    [401, 'UNAUTHORIZED'],
    [403, 'FORBIDDEN'],
    [404, 'NOT_FOUND'],
    [429, 'THROTTLED'],
    [400, 'REFUSED'],
    [410, 'REFUSED'],
    [302, 'REFUSED'],
    [500, 'SERVER'],
    [503, 'SERVER'],
    [599, 'SERVER'],
  ])('HTTP %i is %s', (status, code) => {
    expect(errorOf(status)).toMatchObject({
      code,
      status,
      message: `GET /api/v3/x: the provider answered HTTP ${status}`,
    });
  });

  it.each([
    [
      '{"message":"Record Not Found","errors":[{"resource":"Activity","field":"id","code":"invalid"}]}',
      'Record Not Found: Activity id invalid',
    ],
    [
      '{"message":"Authorization Error","errors":[{"resource":"Application","field":"","code":"invalid"}]}',
      'Authorization Error: Application invalid',
    ],
    ['{"errors":"Rate Limit Exceeded","status":429,"message":"Too Many Requests"}', 'Too Many Requests'],
    ['{"message":{"a":1},"errors":[null]}', undefined],
    ['{"message":"a\\u0000b\\ud83d"}', 'a\ufffdb\ufffd'],
    ['null', undefined],
    ['"text"', undefined],
    ['[]', undefined],
    ['17', undefined],
    ['<html>', undefined],
    ['', undefined],
  ])('with the body %s keeps the provider’s words where there are some', (body, words) => {
    expect(errorOf(500, body).providerMessage).toBe(words);
  });

  it('keeps no more than 200 characters, and no half of a character', () => {
    const { providerMessage } = errorOf(500, JSON.stringify({ message: `${'x'.repeat(199)}🏃 and more` }));
    expect(providerMessage).toBe(`${'x'.repeat(199)}\ufffd`);
  });
});

describe('Retry-After of a 429', () => {
  it('counts in seconds', () => {
    expect(errorOf(429, '', { retryAfter: '120' }).retryAfterMs).toBe(120_000);
    expect(errorOf(429, '', { retryAfter: ' 0 ' }).retryAfterMs).toBe(0);
  });

  it('may be an HTTP date, counted from the Date of the answer, or from our clock without one', () => {
    const retryAfter = 'Tue, 06 May 2025 12:15:00 GMT';
    expect(errorOf(429, '', { retryAfter, date: 'Tue, 06 May 2025 12:05:00 GMT' }).retryAfterMs).toBe(600_000);
    expect(errorOf(429, '', { retryAfter }).retryAfterMs).toBe(900_000);
    expect(errorOf(429, '', { retryAfter: 'Tue, 06 May 2025 11:00:00 GMT' }).retryAfterMs).toBe(0);
  });

  it.each([undefined, '', 'soon', '1.5 hours', '99999999999'])('%p says nothing', (retryAfter) => {
    const { retryAfterMs } = errorOf(429, '', retryAfter === undefined ? {} : { retryAfter });
    expect(retryAfterMs).toBeUndefined();
  });

  it('is read only for a 429', () => {
    expect(errorOf(503, '', { retryAfter: '120' }).retryAfterMs).toBeUndefined();
  });
});
