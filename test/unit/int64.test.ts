import { describe, expect, it } from '@jest/globals';
import { parseJsonKeepingInt64, toInt64 } from '../../src/domain/int64.ts';

describe('an id in JSON input', () => {
  it.each([
    [1, '1'],
    [1360128428, '1360128428'],
    [Number.MAX_SAFE_INTEGER, '9007199254740991'],
    ['9007199254740993', '9007199254740993'],
    ['9223372036854775807', '9223372036854775807'],
    ['007', '7'],
  ])('%p is %s', (value, id) => {
    expect(toInt64(value)).toBe(id);
  });

  it.each([
    0,
    -1,
    1.5,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    2 ** 53,
    '',
    '0',
    '-1',
    '+1',
    ' 1',
    '1.0',
    '1e3',
    '0x1f',
    '9223372036854775808',
    '18446744073709551616',
    '٣',
    true,
    null,
    undefined,
    [5],
    { id: 5 },
    5n,
  ])('%p is none', (value) => {
    expect(toInt64(value)).toBeUndefined();
  });
});

describe('JSON with large integers', () => {
  it('keeps those beyond 2^53-1 as their exact text, wherever they are', () => {
    expect(
      parseJsonKeepingInt64('{"id":9223372036854775807,"list":[9007199254740993,{"n":-9007199254740993}]}'),
    ).toEqual({
      id: '9223372036854775807',
      list: ['9007199254740993', { n: '-9007199254740993' }],
    });
  });

  it('leaves every other value as JSON.parse gives it', () => {
    const text =
      '{"a":1,"b":9007199254740991,"c":1.2345678901234567,"d":"9223372036854775807","e":1e300,"f":12345678901234567.5,"g":null}';
    expect(parseJsonKeepingInt64(text)).toEqual(JSON.parse(text));
  });

  it('is refused with a SyntaxError where JSON.parse refuses it', () => {
    for (const text of ['', '{', '[9223372036854775807,]', '{"id":09223372036854775807}']) {
      expect(() => parseJsonKeepingInt64(text)).toThrow(SyntaxError);
    }
  });
});
