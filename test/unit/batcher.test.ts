import { describe, expect, it } from '@jest/globals';
import { createBatcher } from '../../src/queue/batcher.ts';

interface Open {
  items: string[];
  resolve: (outputs: (string | Promise<string>)[]) => void;
  reject: (error: Error) => void;
}

const settle = async () => {
  for (let turn = 0; turn < 3; turn += 1) await new Promise(setImmediate);
};

function start(options: { maxBatch?: number } = {}) {
  const open: Open[] = [];
  const add = createBatcher<string, string>({
    maxBatch: options.maxBatch ?? 100,
    keyOf: (item) => item.slice(0, 1),
    run: (items) => new Promise((resolve, reject) => open.push({ items, resolve, reject })),
  });
  /** Adds an item and lets its batch start, so that what comes next finds one in flight. */
  const addFirst = async (item: string): Promise<{ result: Promise<string> }> => {
    const result = add(item);
    await settle();
    return { result };
  };
  /** Answers the batch in flight; resolves once the next one has started, if there is one. */
  const answer = async () => {
    const batch = open.at(-1) as Open;
    batch.resolve(batch.items.map((item) => item.toUpperCase()));
    await settle();
  };
  return { add, addFirst, answer, batches: () => open.map(({ items }) => items), last: () => open.at(-1) as Open };
}

describe('the batcher', () => {
  it('starts a lone item without waiting for others', async () => {
    const { addFirst, answer, batches } = start();
    const { result } = await addFirst('a');
    expect(batches()).toEqual([['a']]);
    await answer();
    expect(await result).toBe('A');
  });

  it('forms one batch from all that arrives while another is in flight, and gives each its own output', async () => {
    const { add, addFirst, answer, batches } = start();
    await addFirst('a');
    const results = ['b', 'c', 'd'].map(add);
    await answer();
    expect(batches()).toEqual([['a'], ['b', 'c', 'd']]);
    await answer();
    expect(await Promise.all(results)).toEqual(['B', 'C', 'D']);
  });

  it('never puts items of one key into one batch, and keeps their order', async () => {
    const { add, addFirst, answer, batches } = start();
    await addFirst('x');
    const results = ['a1', 'b1', 'a2', 'a3', 'c1'].map(add);
    for (let n = 0; n < 4; n += 1) await answer();
    expect(batches()).toEqual([['x'], ['a1', 'b1', 'c1'], ['a2'], ['a3']]);
    expect(await Promise.all(results)).toEqual(['A1', 'B1', 'A2', 'A3', 'C1']);
  });

  it('makes no batch larger than the maximum, and an item that had no room does not overtake its key', async () => {
    const { add, addFirst, answer, batches } = start({ maxBatch: 2 });
    await addFirst('x');
    for (const item of ['a1', 'b1', 'c1', 'c2']) void add(item);
    for (let n = 0; n < 4; n += 1) await answer();
    expect(batches()).toEqual([['x'], ['a1', 'b1'], ['c1'], ['c2']]);
  });

  it('rejects every item of a batch that failed, and continues', async () => {
    const { add, addFirst, answer, last } = start();
    await addFirst('a');
    const others = [add('b'), add('c')].map((result) => result.catch((error: Error) => error.message));
    await answer();
    last().reject(new Error('unreachable'));
    expect(await Promise.all(others)).toEqual(['unreachable', 'unreachable']);
    const { result } = await addFirst('d');
    await answer();
    expect(await result).toBe('D');
  });

  it('starts the next batch although outputs of the previous one are still promises', async () => {
    const { add, addFirst, batches, last } = start();
    const { result } = await addFirst('a');
    const late = Promise.withResolvers<string>();
    const next = add('b');
    last().resolve([late.promise]);
    await settle();
    expect(batches()).toEqual([['a'], ['b']]);
    late.resolve('A');
    last().resolve(['B']);
    expect([await result, await next]).toEqual(['A', 'B']);
  });
});
