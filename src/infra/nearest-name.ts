const LEFT_OUT = 0.5; // leaving out a word is a likelier mistake than writing another one

/** The name that was most likely meant, and its distance: 1 for each extra or wrong letter, less for a missing one. */
export function findNearestName(given: string, names: readonly string[]): { name: string; distance: number } {
  const all = names.map((name) => ({ name, distance: distanceOf(given, name) }));
  return all.reduce((best, one) => (one.distance < best.distance ? one : best));
}

/** The weighted Levenshtein distance, row by row: `row[i]` is the distance from the part of `from` read so far to the first i letters of `to`. */
function distanceOf(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index * LEFT_OUT);
  for (const letter of from) {
    const next = [(row[0] as number) + 1];
    for (let i = 1; i <= to.length; i += 1) {
      const replaced = (row[i - 1] as number) + (to[i - 1] === letter ? 0 : 1);
      next.push(Math.min(replaced, (row[i] as number) + 1, (next[i - 1] as number) + LEFT_OUT));
    }
    row = next;
  }
  return row[to.length] as number;
}
