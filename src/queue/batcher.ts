/**
 * Lets many callers share one piece of work: what arrives while a batch is in flight forms the next batch. There is no
 * timer: a lone item starts at the end of this event-loop iteration.
 * @param keyOf items with equal keys are never in the same batch; the later one goes into a later batch
 * @param run does the work; resolves with one output for each item, in order. The next batch does not wait for outputs
 * that are still promises
 * @returns a function that adds an item and resolves with its output, or rejects as its batch did
 */
export function createBatcher<Item, Output>(options: {
  maxBatch: number;
  keyOf: (item: Item) => string;
  run: (items: Item[]) => Promise<readonly (Output | Promise<Output>)[]>;
}): (item: Item) => Promise<Output> {
  interface Waiting {
    item: Item;
    resolve: (output: Output | Promise<Output>) => void;
    reject: (error: unknown) => void;
  }
  const { maxBatch, keyOf, run } = options;
  let waiting: Waiting[] = [];
  let isRunning = false;

  const runAll = async (): Promise<void> => {
    while (waiting.length > 0) {
      const batch = takeBatch();
      try {
        const outputs = await run(batch.map(({ item }) => item));
        for (const [n, { resolve }] of batch.entries()) resolve(outputs[n] as Output | Promise<Output>);
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    isRunning = false;
  };

  const takeBatch = (): Waiting[] => {
    const keys = new Set<string>();
    const batch: Waiting[] = [];
    const later: Waiting[] = [];
    for (const entry of waiting) {
      const key = keyOf(entry.item);
      if (batch.length < maxBatch && !keys.has(key)) batch.push(entry);
      else later.push(entry);
      keys.add(key);
    }
    waiting = later;
    return batch;
  };

  return (item) =>
    new Promise<Output>((resolve, reject) => {
      waiting.push({ item, resolve, reject });
      if (isRunning) return;
      isRunning = true;
      setImmediate(() => void runAll()); // items that arrive together are sent together
    });
}
