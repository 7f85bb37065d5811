/** An id as callers may give it. Inside, ids are decimal strings, since a double cannot hold them. */
export type EntityId = string | number | bigint;

const largest = 2n ** 63n - 1n;

/** Turns an id into its decimal string. Throws a RangeError for anything that is not an integer from 0 to 2^63-1. */
export function toEntityId(value: EntityId): string {
  const text = String(value);
  if (
    !/^\d{1,19}$/.test(text) ||
    BigInt(text) > largest ||
    (typeof value === 'number' && !Number.isSafeInteger(value))
  ) {
    throw new RangeError(`Not a 64-bit id: ${text}. Give large ids as decimal strings.`);
  }
  return BigInt(text).toString();
}
