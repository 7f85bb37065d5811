import { describe, expect, it } from '@jest/globals';
import { createKeptRead } from '../../src/infra/kept-read.ts';

describe('a kept read', () => {
  it('is made once for all who ask in time, and anew for whoever asks later', async () => {
    let now = 0;
    let reads = 0;
    const read = createKeptRead(
      async () => ++reads,
      1000,
      () => now,
    );
    expect(await Promise.all([read(), read()])).toEqual([1, 1]);
    now = 999;
    expect(await read()).toBe(1);
    now = 1000;
    expect(await read()).toBe(2);
  });

  it('is made anew after the clock was set back, however far', async () => {
    let now = 3_600_000;
    let reads = 0;
    const read = createKeptRead(
      async () => ++reads,
      1000,
      () => now,
    );
    await read();
    now = 0;
    expect(await read()).toBe(2);
    now = 1;
    expect(await read()).toBe(2);
  });

  it('does not keep a failure', async () => {
    let fails = true;
    const read = createKeptRead(
      async () => {
        if (fails) throw new Error('away');
        return 'back';
      },
      1000,
      () => 0,
    );
    await expect(read()).rejects.toThrow('away');
    fails = false;
    expect(await read()).toBe('back');
  });
});
