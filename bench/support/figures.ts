export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** @param share 0 to 1 */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}

/** Prints rows as an aligned table; the first row is the heading. */
export function printTable(rows: readonly (readonly (string | number)[])[]): void {
  const texts = rows.map((row) => row.map(String));
  const widths = texts[0]?.map((_, column) => Math.max(...texts.map((row) => row[column]?.length ?? 0))) ?? [];
  for (const row of texts)
    console.log(
      row
        .map((text, n) => (n === 0 ? text.padEnd(widths[n] ?? 0) : text.padStart(widths[n] ?? 0)))
        .join('  ')
        .trimEnd(),
    );
}

/** Prints a goal with whether this run met it; a missed one makes the process exit with 1. @returns whether */
export function printGoal(what: string, met: boolean): boolean {
  if (!met) process.exitCode = 1;
  console.log(`${met ? 'met   ' : 'MISSED'}  ${what}`);
  return met;
}
