/** How many of the finished runs had one of these results. */
export function countFinished(finished: Record<string, number>, results: readonly string[]): number {
  return results.reduce((total, result) => total + (finished[result] ?? 0), 0);
}
