import { describe, expect, it } from '@jest/globals';
import { createBatcher } from '../../src/flows/batcher.ts';

interface Open {
  items: string[];
  resolve: (outputs: string[]) => void;
  reject: (error: Error) => void;
}

const settle = async () => {
  for (let turn = 0; turn < 3; turn += 1) await new Promise(setImmediate);
};

function start(
  options: {
    maxBatch?: number;
    depth?: number;
    areAll?: (items: number) => boolean;
    isOfOneItem?: (error: unknown) => boolean;
    groups?: { of: (item: string) => string; isOfOne: (error: unknown) => boolean };
  } = {},
) {
  const open: Open[] = [];
  const add = createBatcher<string, string>({
    maxBatch: options.maxBatch ?? 100,
    depth: options.depth ?? 1,
    keyOf: (item) => item.slice(0, 1),
    run: (items) => new Promise((resolve, reject) => open.push({ items, resolve, reject })),
    ...(options.areAll ? { areAll: options.areAll } : {}),
    ...(options.isOfOneItem ? { isOfOneItem: options.isOfOneItem } : {}),
    ...(options.groups ? { groups: options.groups } : {}),
  });
  /** Adds an item and lets its batch start, so that what comes next finds one in flight. */
  const addFirst = async (item: string): Promise<{ result: Promise<string> }> => {
    const result = add(item);
    await settle();
    return { result };
  };
  /** Answers a batch that is under way, the newest unless told; resolves once the next one has started, if there is one. */
  const answer = async (n = open.length - 1) => {
    const batch = open[n] as Open;
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

  it('makes one batch of all that arrives while another is in flight, and gives each its own output', async () => {
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

  it('rejects every item of a batch that failed, and goes on', async () => {
    const { add, addFirst, answer, last } = start();
    await addFirst('a');
    const others = [add('b'), add('c')].map((result) => result.catch((error: Error) => error.message));
    await answer();
    last().reject(new Error('away'));
    expect(await Promise.all(others)).toEqual(['away', 'away']);
    const { result } = await addFirst('d');
    await answer();
    expect(await result).toBe('D');
  });

  it('runs the items one by one when one of them may have caused the failure', async () => {
    const isOfOneItem = (error: unknown) => (error as Error).message === 'poison';
    const { add, addFirst, answer, batches, last } = start({ isOfOneItem });
    await addFirst('x');
    const results = ['a', 'b', 'c'].map((item) => add(item).catch((error: Error) => error.message));
    await answer();
    last().reject(new Error('poison'));
    await settle();
    await answer();
    last().reject(new Error('poison'));
    await settle();
    await answer();
    expect(batches()).toEqual([['x'], ['a', 'b', 'c'], ['a'], ['b'], ['c']]);
    expect(await Promise.all(results)).toEqual(['A', 'poison', 'C']);
  });

  describe('of items that belong to groups, of which one may have caused the failure', () => {
    const groups = {
      of: (item: string) => item.slice(1),
      isOfOne: (error: unknown) => (error as Error).message === 'locked',
    };
    const end = (result: Promise<string>) => result.catch((error: Error) => error.message);

    it('runs them group by group, each once', async () => {
      const { add, addFirst, answer, batches, last } = start({ groups });
      await addFirst('x');
      const results = ['a1', 'b1', 'c2', 'd1', 'e3'].map((item) => end(add(item)));
      await answer();
      for (const [n, outcome] of ['locked', 'locked', 'fine', 'fine'].entries()) {
        expect(batches()).toHaveLength(n + 2);
        if (outcome === 'fine') await answer();
        else last().reject(new Error(outcome));
        await settle();
      }
      expect(batches()).toEqual([['x'], ['a1', 'b1', 'c2', 'd1', 'e3'], ['a1', 'b1', 'd1'], ['c2'], ['e3']]);
      expect(await Promise.all(results)).toEqual(['locked', 'locked', 'C2', 'locked', 'E3']);
    });

    it('fails what waits of a group together with it when it failed alone, and tries it again when it comes later', async () => {
      const { add, answer, batches, last } = start({ groups });
      const results = ['a1'].map((item) => end(add(item)));
      await settle();
      results.push(...['b1', 'c2', 'd1'].map((item) => end(add(item))));
      last().reject(new Error('locked'));
      await settle();
      expect(batches()).toEqual([['a1'], ['c2']]);
      const later = add('e1');
      await answer();
      await answer();
      expect(await Promise.all([...results, later])).toEqual(['locked', 'locked', 'C2', 'locked', 'E1']);
    });
  });

  it('of depth 2 and told how many items there can be, starts a second batch when no other can come', async () => {
    const { add, addFirst, answer, batches } = start({ depth: 2, areAll: (items) => items >= 3 });
    await addFirst('a');
    await addFirst('b');
    expect(batches()).toEqual([['a']]);
    await addFirst('c');
    expect(batches()).toEqual([['a'], ['b', 'c']]);
    await answer(0);
    void add('d');
    await settle();
    expect(batches()[2]).toEqual(['d']);
  });

  it('told how many items there can be, starts what waits when nothing is in flight any more', async () => {
    const { addFirst, answer, batches } = start({ depth: 2, areAll: (items) => items >= 3 });
    await addFirst('a');
    await addFirst('b');
    await answer(0);
    expect(batches()).toEqual([['a'], ['b']]);
  });

  it('of depth 2 starts a second batch once it is as large as the one in flight, and no third', async () => {
    const { add, answer, batches } = start({ depth: 2 });
    for (const item of ['a', 'b', 'c']) void add(item);
    await settle();
    for (const item of ['d', 'e']) void add(item);
    await settle();
    expect(batches()).toEqual([['a', 'b', 'c']]);
    void add('f');
    await settle();
    for (const item of ['g', 'h', 'i', 'j']) void add(item);
    await settle();
    expect(batches()).toEqual([
      ['a', 'b', 'c'],
      ['d', 'e', 'f'],
    ]);
    await answer(0);
    expect(batches()[2]).toEqual(['g', 'h', 'i', 'j']);
  });

  it('never has items of one key in flight together', async () => {
    const { add, answer, batches } = start({ depth: 2 });
    const first = add('a1');
    await settle();
    const second = add('a2');
    await settle();
    void add('b1');
    await settle();
    expect(batches()).toEqual([['a1'], ['b1']]);
    await answer(0);
    expect(batches()).toEqual([['a1'], ['b1'], ['a2']]);
    await answer(2);
    expect(await Promise.all([first, second])).toEqual(['A1', 'A2']);
  });
});
