import { describe, expect, it } from '@jest/globals';
import { toStorableJson, toStorableText } from '../../src/domain/storable-text.ts';

describe('text that PostgreSQL can hold', () => {
  it('has U+FFFD in place of NUL and of halves of surrogate pairs, and is otherwise the same', () => {
    expect(toStorableText('a\0b\ud83dc\udc00')).toBe('a\ufffdb\ufffdc\ufffd');
    expect(toStorableText('Zürich 🏃 \u0001')).toBe('Zürich 🏃 \u0001');
  });
});

describe('JSON that PostgreSQL can hold', () => {
  it.each([
    ['the escape of NUL', String.raw`"a\u0000b"`, String.raw`"a\ufffdb"`],
    ['half a pair', String.raw`"\ud83d" "\uDC00"`, String.raw`"\ufffd" "\ufffd"`],
    ['two first halves and one second', String.raw`"\ud83d\ud83d\ude00"`, String.raw`"\ufffd\ud83d\ude00"`],
    ['a second half before a first', String.raw`"\ude00\ud83d"`, String.raw`"\ufffd\ufffd"`],
    ['NUL behind an escaped backslash', String.raw`"\\\u0000"`, String.raw`"\\\ufffd"`],
  ])('%s is replaced', (_case, json, expected) => {
    expect(toStorableJson(json)).toBe(expected);
    JSON.parse(expected.split(' ')[0] ?? '');
  });

  it.each([
    ['a whole pair', String.raw`"\ud83d\ude00"`],
    ['an escaped backslash before u0000', String.raw`"\\u0000"`],
    ['other escapes', String.raw`"\u00fc\n\"\/\ud7ff\ue000"`],
    ['numbers', '[9223372036854775807,1.10,1e999999]'],
  ])('%s stays as it is', (_case, json) => {
    expect(toStorableJson(json)).toBe(json);
  });

  it('is made of megabytes within milliseconds', () => {
    const json = `"${String.raw`\u0000\\x`.repeat(500_000)}"`;
    const startedAt = performance.now();
    expect(toStorableJson(json)).toHaveLength(json.length);
    expect(performance.now() - startedAt).toBeLessThan(2000);
  });
});
