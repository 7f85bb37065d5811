import { createCipheriv, createDecipheriv, createHash, createSecretKey, randomBytes } from 'node:crypto';

/** Encrypts short secrets for storage. */
export interface SecretBox {
  /** Encrypts with the newest key. @returns "v1.<key id>.<base64url of nonce, tag and ciphertext>" */
  seal(plain: string): string;
  /** @throws SecretBoxError when no key matches or the text was altered */
  open(sealed: string): string;
  /** The prefix of everything sealed with the newest key. */
  readonly prefix: string;
  /** True when `sealed` was made with an older key and should be sealed again. */
  isOutdated(sealed: string): boolean;
}

export class SecretBoxError extends Error {
  override name = 'SecretBoxError';
  readonly code = 'SECRET_BOX';
}

/**
 * AES-256-GCM under a random 96-bit nonce.
 * @param keys 64 hexadecimal digits each, newest first: the first one seals, all of them open
 */
export function createSecretBox(keys: readonly string[]): SecretBox {
  const known = keys.map((hex) => ({ id: keyId(hex), key: createSecretKey(hex, 'hex') }));
  const newest = known[0];
  if (newest === undefined)
    throw new SecretBoxError('No key to encrypt athlete tokens with. Set TOKEN_ENCRYPTION_KEY.');
  const prefix = `v1.${newest.id}.`;
  return {
    prefix,
    seal: (plain) => {
      const nonce = randomBytes(12);
      const cipher = createCipheriv('aes-256-gcm', newest.key, nonce);
      const body = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()]);
      return `${prefix}${Buffer.concat([nonce, cipher.getAuthTag(), body]).toString('base64url')}`;
    },
    open: (sealed) => {
      const [, id, payload] = sealed.split('.');
      const entry = known.find((candidate) => candidate.id === id);
      if (!entry || payload === undefined) {
        throw new SecretBoxError(
          'A stored token was encrypted with a key that TOKEN_ENCRYPTION_KEY no longer holds. Add the former key after the new one.',
        );
      }
      const bytes = Buffer.from(payload, 'base64url');
      try {
        const decipher = createDecipheriv('aes-256-gcm', entry.key, bytes.subarray(0, 12), { authTagLength: 16 });
        decipher.setAuthTag(bytes.subarray(12, 28));
        return Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString('utf8');
      } catch (error) {
        throw new SecretBoxError('A stored token cannot be decrypted: it was altered, or encrypted with another key.', {
          cause: error,
        });
      }
    },
    isOutdated: (sealed) => !sealed.startsWith(prefix),
  };
}

// Names a key without revealing it.
function keyId(hex: string): string {
  return createHash('sha256').update(Buffer.from(hex, 'hex')).digest('hex').slice(0, 8);
}
