import { describe, expect, it } from '@jest/globals';
import { createSecretBox, SecretBoxError } from '../../src/infra/secret-box.ts';

const [OLD, NEW] = ['0a'.repeat(32), '0b'.repeat(32)];
const TOKEN = 'a4b945687g-äöü-🔑';

describe('a sealed secret', () => {
  it('opens to what it was, holds nothing of it in the clear, and is never the same twice', () => {
    const box = createSecretBox([NEW]);
    const sealed = box.seal(TOKEN);
    expect(box.open(sealed)).toBe(TOKEN);
    expect(sealed).not.toContain('a4b945687g');
    expect(box.seal(TOKEN)).not.toBe(sealed);
    expect(box.open(box.seal(''))).toBe('');
  });

  it('still opens after a rotation of keys, and is known to be outdated', () => {
    const sealed = createSecretBox([OLD]).seal(TOKEN);
    const rotated = createSecretBox([NEW, OLD]);
    expect(rotated.open(sealed)).toBe(TOKEN);
    expect(rotated.isOutdated(sealed)).toBe(true);
    expect(rotated.isOutdated(rotated.seal(TOKEN))).toBe(false);
  });

  it('does not open once its key is gone; the error says what to do and names no key', () => {
    const sealed = createSecretBox([OLD]).seal(TOKEN);
    const open = () => createSecretBox([NEW]).open(sealed);
    expect(open).toThrow(SecretBoxError);
    expect(open).toThrow(/Add the former key/);
    expect(open).not.toThrow(NEW);
  });

  it('does not open after any change', () => {
    const box = createSecretBox([NEW]);
    const sealed = box.seal(TOKEN);
    const [version, key, payload = ''] = sealed.split('.');
    const bytes = Buffer.from(payload, 'base64url');
    for (let at = 0; at < bytes.length; at += 1) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ 1;
      expect(() => box.open(`${version}.${key}.${changed.toString('base64url')}`)).toThrow(SecretBoxError);
    }
  });

  it('does not open when it is cut short, empty or no sealed secret at all', () => {
    const box = createSecretBox([NEW]);
    const sealed = box.seal(TOKEN);
    for (let length = 0; length < sealed.length; length += 1) {
      expect(() => box.open(sealed.slice(0, length))).toThrow(SecretBoxError);
    }
    for (const text of ['', '.', '..', 'v1..', TOKEN]) expect(() => box.open(text)).toThrow(SecretBoxError);
  });
});

describe('a box without a key', () => {
  it('is refused, and the error names the variable', () => {
    expect(() => createSecretBox([])).toThrow(/TOKEN_ENCRYPTION_KEY/);
  });
});
