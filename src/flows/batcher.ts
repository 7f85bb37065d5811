import { setImmediate } from 'node:timers/promises';

/**
 * Lets many callers share one piece of work: what arrives while a batch is in flight makes the next
 * batch. There is no timer: a lone item starts at the end of this turn of the event loop.
 * @param keyOf items with equal keys never share a batch; the later one goes into a later batch
 * @param run does the work; resolves with one output for each item, in order
 * @param isOfOneItem tells of an error of `run` whether one item may have caused it: the items of that
 * batch are then run one by one, so that the others do not fail with it
 * @returns a function that adds an item and resolves with its output, or rejects as its batch did
 */
export function createBatcher<Item, Output>(options: {
  maxBatch: number;
  keyOf: (item: Item) => string;
  run: (items: Item[]) => Promise<Output[]>;
  isOfOneItem?: (error: unknown) => boolean;
}): (item: Item) => Promise<Output> {
  interface Waiting {
    item: Item;
    resolve: (output: Output) => void;
    reject: (error: unknown) => void;
  }
  let waiting: Waiting[] = [];
  let inFlight = false;

  const flush = async (): Promise<void> => {
    inFlight = true;
    await setImmediate(); // what came in together goes out together
    while (waiting.length > 0) await runBatch(takeBatch());
    inFlight = false;
  };

  const runBatch = async (batch: Waiting[]): Promise<void> => {
    try {
      const outputs = await options.run(batch.map(({ item }) => item));
      for (const [index, { resolve }] of batch.entries()) resolve(outputs[index] as Output);
    } catch (error) {
      if (batch.length > 1 && options.isOfOneItem?.(error)) for (const entry of batch) await runBatch([entry]);
      else for (const { reject } of batch) reject(error);
    }
  };

  const takeBatch = (): Waiting[] => {
    const keys = new Set<string>();
    const batch: Waiting[] = [];
    const later: Waiting[] = [];
    for (const entry of waiting) {
      const key = options.keyOf(entry.item);
      if (batch.length < options.maxBatch && !keys.has(key)) batch.push(entry);
      else later.push(entry);
      keys.add(key);
    }
    waiting = later;
    return batch;
  };

  return (item) =>
    new Promise<Output>((resolve, reject) => {
      waiting.push({ item, resolve, reject });
      if (!inFlight) void flush();
    });
}
