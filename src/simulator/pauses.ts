/** Waits that all end when the simulator closes, so that no timer outlives it. */
export class Pauses {
  readonly #open = new Map<NodeJS.Timeout, () => void>();
  #ended = false;

  get ended(): boolean {
    return this.#ended;
  }

  /** Resolves after that time, or at once when the simulator closes. */
  wait(ms: number): Promise<void> {
    if (this.#ended || ms <= 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#open.delete(timer);
        resolve();
      }, ms);
      this.#open.set(timer, resolve);
    });
  }

  endAll(): void {
    this.#ended = true;
    for (const [timer, resolve] of this.#open) {
      clearTimeout(timer);
      resolve();
    }
    this.#open.clear();
  }
}
