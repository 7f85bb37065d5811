/** A source of numbers in [0, 1) that repeats itself for the same seed. */
export type Random = () => number;

/** Starts a repeatable random sequence (mulberry32). */
export function seedRandom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** Mixes a seed and a text into a 32-bit number (FNV-1a). */
export function hashText(seed: number, text: string): number {
  let hash = (0x811c9dc5 ^ seed) >>> 0;
  for (let index = 0; index < text.length; index++) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193) >>> 0;
  }
  hash ^= hash >>> 16;
  return Math.imul(hash, 0x45d9f3b) >>> 0;
}

/** One of the items, by chance. Throws a RangeError for an empty list. */
export function pickOne<T>(items: readonly T[], random: Random): T {
  const item = items[Math.floor(random() * items.length)];
  if (item === undefined) throw new RangeError('Cannot pick from an empty list');
  return item;
}
