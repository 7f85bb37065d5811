const LEFT_OUT = 0.5; // a word is left out more easily than another one written

/** The name that is most likely meant, and how far away it is: 1 for each letter too many or wrong, less for a missing one. */
export function findNearestName(given: string, names: readonly string[]): { name: string; distance: number } {
  const all = names.map((name) => ({ name, distance: distanceOf(given, name) }));
  return all.reduce((best, one) => (one.distance < best.distance ? one : best));
}

/** The weighted Levenshtein distance, row by row: `row[i]` is that of what was read of `from` to the first i letters of `to`. */
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
