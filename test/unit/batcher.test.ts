import { describe, expect, it } from '@jest/globals';
import { createBatcher } from '../../src/flows/batcher.ts';

interface Open {
  items: string[];
  resolve: (outputs: string[]) => void;
  reject: (error: Error) => void;
}

function start(options: { maxBatch?: number; isOfOneItem?: (error: unknown) => boolean } = {}) {
  const open: Open[] = [];
  const add = createBatcher<string, string>({
    maxBatch: options.maxBatch ?? 100,
    keyOf: (item) => item.slice(0, 1),
    run: (items) => new Promise((resolve, reject) => open.push({ items, resolve, reject })),
    ...(options.isOfOneItem ? { isOfOneItem: options.isOfOneItem } : {}),
  });
  /** Answers the batch that is under way; resolves once the next one has started, if there is one. */
  const answer = async () => {
    const batch = open.at(-1) as Open;
    batch.resolve(batch.items.map((item) => item.toUpperCase()));
    await new Promise(setImmediate);
  };
  return { add, answer, batches: () => open.map(({ items }) => items), last: () => open.at(-1) as Open };
}

describe('the batcher', () => {
  it('starts a lone item at once', async () => {
    const { add, answer, batches } = start();
    const result = add('a');
    expect(batches()).toEqual([['a']]);
    await answer();
    expect(await result).toBe('A');
  });

  it('makes one batch of all that arrives while another is in flight, and gives each its own output', async () => {
    const { add, answer, batches } = start();
    const results = ['a', 'b', 'c', 'd'].map(add);
    await answer();
    expect(batches()).toEqual([['a'], ['b', 'c', 'd']]);
    await answer();
    expect(await Promise.all(results)).toEqual(['A', 'B', 'C', 'D']);
  });

  it('never puts items of one key into one batch, and keeps their order', async () => {
    const { add, answer, batches } = start();
    const results = ['x', 'a1', 'b1', 'a2', 'a3', 'c1'].map(add);
    for (let n = 0; n < 4; n += 1) await answer();
    expect(batches()).toEqual([['x'], ['a1', 'b1', 'c1'], ['a2'], ['a3']]);
    expect(await Promise.all(results)).toEqual(['X', 'A1', 'B1', 'A2', 'A3', 'C1']);
  });

  it('makes no batch larger than the maximum, and an item that had no room does not overtake its key', async () => {
    const { add, answer, batches } = start({ maxBatch: 2 });
    for (const item of ['x', 'a1', 'b1', 'c1', 'c2']) void add(item);
    for (let n = 0; n < 4; n += 1) await answer();
    expect(batches()).toEqual([['x'], ['a1', 'b1'], ['c1'], ['c2']]);
  });

  it('rejects every item of a batch that failed, and goes on', async () => {
    const { add, answer, last } = start();
    const first = add('a');
    const others = [add('b'), add('c')].map((result) => result.catch((error: Error) => error.message));
    await answer();
    last().reject(new Error('away'));
    expect(await Promise.all(others)).toEqual(['away', 'away']);
    expect(await first).toBe('A');
    const later = add('d');
    await answer();
    expect(await later).toBe('D');
  });

  it('runs the items one by one when one of them may have caused the failure', async () => {
    const { add, answer, batches, last } = start({ isOfOneItem: (error) => (error as Error).message === 'poison' });
    const results = ['x', 'a', 'b', 'c'].map((item) => add(item).catch((error: Error) => error.message));
    await answer();
    last().reject(new Error('poison'));
    await new Promise(setImmediate);
    await answer();
    last().reject(new Error('poison'));
    await new Promise(setImmediate);
    await answer();
    expect(batches()).toEqual([['x'], ['a', 'b', 'c'], ['a'], ['b'], ['c']]);
    expect(await Promise.all(results)).toEqual(['X', 'A', 'poison', 'C']);
  });
});
