const LOOK_EVERY_MS = 10;

/**
 * Waits until something holds, for what sends no signal.
 * @param what it is, for the error when it did not happen within `patienceMs`
 */
export async function until(fits: () => Promise<boolean> | boolean, what: string, patienceMs = 20_000): Promise<void> {
  const deadline = performance.now() + patienceMs;
  while (!(await fits())) {
    if (performance.now() > deadline) throw new Error(`${what} did not happen within ${patienceMs / 1000} s`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
}
