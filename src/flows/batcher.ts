/**
 * Lets many callers share one piece of work: what arrives while a batch is in flight makes the next
 * batch. There is no timer: a lone item starts at the end of this turn of the event loop.
 * @param keyOf items with equal keys are never in flight together; the later one goes into a later batch
 * @param run does the work; resolves with one output for each item, in order. `isPart`: of a batch that failed
 * @param depth how many batches may be in flight, 1 unless told. A further one starts once it is as large as
 * the newest in flight, so that many small ones do not take the place of few large ones
 * @param areAll where callers are known: whether so many items, waiting and in flight, are all that can be
 * expected just now. It then decides when a further batch starts, since no larger one is to be had
 * @param isOfOneItem tells of an error of `run` whether one item may have caused it: the items of that
 * batch are then run one by one, so that the others do not fail with it
 * @param groups for what items may have in common that fails. `isOfOne` tells whether an error may be one group's:
 * the batch is then run group by group, and what waits of a group that failed alone fails with it
 * @returns a function that adds an item and resolves with its output, or rejects as its batch did
 */
export function createBatcher<Item, Output>(options: {
  maxBatch: number;
  keyOf: (item: Item) => string;
  run: (items: Item[], isPart: boolean) => Promise<Output[]>;
  depth?: number;
  areAll?: (items: number) => boolean;
  isOfOneItem?: (error: unknown) => boolean;
  groups?: { of: (item: Item) => string; isOfOne: (error: unknown) => boolean };
}): (item: Item) => Promise<Output> {
  interface Waiting {
    item: Item;
    key: string;
    resolve: (output: Output) => void;
    reject: (error: unknown) => void;
  }
  const { maxBatch, keyOf, depth = 1 } = options;
  let waiting: Waiting[] = [];
  let inFlight = 0;
  let newestSize = 0;
  let notHandedOut = 0;
  const keysInFlight = new Set<string>();
  let isStarting = false;

  const isLargeEnough = () =>
    options.areAll ? options.areAll(notHandedOut + waiting.length) : waiting.length >= newestSize;
  const isTimeForOne = () => inFlight === 0 || (inFlight < depth && waiting.length > 0 && isLargeEnough());

  const startAtEndOfTurn = (): void => {
    if (isStarting || !isTimeForOne()) return;
    isStarting = true;
    // What came in together goes out together.
    setImmediate(() => {
      isStarting = false;
      startNext();
    });
  };

  const startNext = (): void => {
    if (!isTimeForOne()) return;
    const batch = takeBatch();
    if (batch.length === 0) return;
    inFlight += 1;
    newestSize = batch.length;
    notHandedOut += batch.length;
    for (const { key } of batch) keysInFlight.add(key);
    void runBatch(batch).then((handOut) => {
      for (const { key } of batch) keysInFlight.delete(key);
      inFlight -= 1;
      startNext(); // before the outputs are handed out, which keeps this thread busy for a while
      notHandedOut -= batch.length;
      handOut();
    });
  };

  /** Returns what hands the outputs out. */
  const runBatch = async (batch: Waiting[], isPart = false): Promise<() => void> => {
    try {
      const outputs = await options.run(
        batch.map(({ item }) => item),
        isPart,
      );
      return () => {
        for (const [index, { resolve }] of batch.entries()) resolve(outputs[index] as Output);
      };
    } catch (error) {
      const parts = partsOf(batch, error);
      if (parts.length === 1) {
        const failed = [...batch, ...takeWaitingOfGroup(batch, error)];
        return () => {
          for (const { reject } of failed) reject(error);
        };
      }
      const handOuts: (() => void)[] = [];
      for (const part of parts) handOuts.push(await runBatch(part, true));
      return () => {
        for (const handOut of handOuts) handOut();
      };
    }
  };

  /** The batch in parts of which one may have caused the error; itself where it is not to be parted. */
  const partsOf = (batch: Waiting[], error: unknown): Waiting[][] => {
    const { groups, isOfOneItem } = options;
    if (groups?.isOfOne(error)) return [...Map.groupBy(batch, ({ item }) => groups.of(item)).values()];
    return isOfOneItem?.(error) ? batch.map((entry) => [entry]) : [batch];
  };

  const takeWaitingOfGroup = ([first]: Waiting[], error: unknown): Waiting[] => {
    const { groups } = options;
    if (!first || !groups?.isOfOne(error)) return [];
    const failed = groups.of(first.item);
    const { of = [], others = [] } = Object.groupBy(waiting, ({ item }) =>
      groups.of(item) === failed ? 'of' : 'others',
    );
    waiting = others;
    return of;
  };

  const takeBatch = (): Waiting[] => {
    const keys = new Set(keysInFlight);
    const batch: Waiting[] = [];
    const later: Waiting[] = [];
    for (const entry of waiting) {
      if (batch.length < maxBatch && !keys.has(entry.key)) batch.push(entry);
      else later.push(entry);
      keys.add(entry.key);
    }
    waiting = later;
    return batch;
  };

  return (item) =>
    new Promise<Output>((resolve, reject) => {
      waiting.push({ item, key: keyOf(item), resolve, reject });
      startAtEndOfTurn();
    });
}
