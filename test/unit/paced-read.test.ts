import { describe, expect, it } from '@jest/globals';
import { createPacedRead } from '../../src/infra/paced-read.ts';

const later = <T>(answer: T, ms: number) => new Promise<T>((resolve) => setTimeout(() => resolve(answer), ms));

describe('a paced read', () => {
  it('is repeated each time while it is cheap', async () => {
    let reads = 0;
    const read = createPacedRead(async () => ++reads);
    expect([await read(), await read(), await read()]).toEqual([1, 2, 3]);
  });

  it('shares an expensive answer with everyone who asks during the read and for a while after', async () => {
    let reads = 0;
    const read = createPacedRead(() => later(++reads, 60));
    await read();
    expect(await Promise.all([read(), read(), read()])).toEqual([1, 1, 1]);
  });

  it('never shares a cheap answer that was started before the call', async () => {
    let value = 'old';
    const read = createPacedRead(async () => {
      const seen = value;
      await later(undefined, 1);
      return seen;
    });
    const first = read();
    value = 'new';
    expect([await first, await read()]).toEqual(['old', 'new']);
    const second = read();
    value = 'newest';
    const third = read();
    expect([await second, await third]).toEqual(['new', 'newest']);
  });

  it('is made once for all callers while its answer is kept, however cheap', async () => {
    let reads = 0;
    const read = createPacedRead(async () => ++reads, 60_000);
    expect(await Promise.all([read(), read(), read()])).toEqual([1, 1, 1]);
    expect(await read()).toBe(1);
  });

  it('passes on an error and reads again', async () => {
    let reads = 0;
    const read = createPacedRead(async () => {
      reads += 1;
      if (reads === 1) throw new Error('away');
      return reads;
    });
    await expect(read()).rejects.toThrow('away');
    expect(await read()).toBe(2);
  });
});
