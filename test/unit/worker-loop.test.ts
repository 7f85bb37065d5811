import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { TestClock } from 'pg-boss';
import { createSilentLogger } from '../../src/infra/logger.ts';
import { createMetrics } from '../../src/infra/metrics.ts';
import { type Claimed, WorkerLoop } from '../../src/workers/worker-loop.ts';

interface Run {
  job: string;
  signal: AbortSignal;
  end: () => void;
  fail: (error: Error) => void;
}

const metrics = createMetrics();
let clock: TestClock;
let waiting: string[];
let waitMs: number | undefined;
let claims: number;
let claim: () => Promise<Claimed<string>>;
let runs: Run[];
let loop: WorkerLoop<string>;

/** Lets everything happen that needs no time. */
const settle = async () => {
  for (let turn = 0; turn < 5; turn += 1) await new Promise(setImmediate);
};
const tick = async (ms: number) => {
  await clock.tick(ms);
  await settle();
};
const claimWaiting = async (): Promise<Claimed<string>> => {
  const job = waiting.shift();
  return { jobs: job === undefined ? [] : [job], waitMs };
};
const running = () => runs.map(({ job }) => job);

beforeEach(() => {
  clock = new TestClock(0);
  waiting = [];
  waitMs = undefined;
  claims = 0;
  runs = [];
  claim = claimWaiting;
  loop = new WorkerLoop<string>({
    name: 'test',
    slots: 3,
    pollIntervalMs: 2000,
    claim: () => {
      claims += 1;
      return claim();
    },
    run: (job, signal) => new Promise((resolve, reject) => runs.push({ job, signal, end: resolve, fail: reject })),
    clock,
    logger: createSilentLogger(),
    metrics,
  });
});
afterEach(async () => {
  const stopped = loop.stop(0);
  for (const { end } of runs) end();
  await stopped;
});

describe('a worker loop', () => {
  it('fills every slot at once, and no more than that', async () => {
    waiting = ['a', 'b', 'c', 'd'];
    loop.start();
    await settle();
    expect(running()).toEqual(['a', 'b', 'c']);
  });

  it('claims the next job as soon as a slot is free, however long the poll interval is', async () => {
    waiting = ['a', 'b', 'c', 'd', 'e'];
    loop.start();
    await settle();
    runs[1]?.end();
    await settle();
    expect(running()).toEqual(['a', 'b', 'c', 'd']);
    runs[0]?.end();
    await settle();
    expect(running()).toEqual(['a', 'b', 'c', 'd', 'e']);
  });

  it('claims again after the poll interval, when nothing woke it', async () => {
    loop.start();
    await settle();
    const before = claims;
    waiting = ['a'];
    await tick(1999);
    expect(claims).toBe(before);
    await tick(1);
    expect(running()).toEqual(['a']);
  });

  it('claims again at the time that the claim returned, if that is sooner', async () => {
    waitMs = 300;
    loop.start();
    await settle();
    waiting = ['a'];
    await tick(299);
    expect(running()).toEqual([]);
    await tick(1);
    expect(running()).toEqual(['a']);
  });

  it('sleeps no longer than the poll interval, whatever the claim said', async () => {
    waitMs = 900_000;
    loop.start();
    await settle();
    waiting = ['a'];
    await tick(2000);
    expect(running()).toEqual(['a']);
  });

  it('claims at once when it is woken', async () => {
    loop.start();
    await settle();
    waiting = ['a'];
    loop.wake();
    await settle();
    expect(running()).toEqual(['a']);
  });

  it('loses no wake-up that comes during a claim', async () => {
    const looked = Promise.withResolvers<Claimed<string>>();
    claim = () => looked.promise;
    loop.start();
    await settle();
    loop.wake();
    claim = claimWaiting;
    waiting = ['a'];
    looked.resolve({ jobs: [] });
    await settle();
    expect(running()).toEqual(['a']);
  });

  it('does not spin while there is nothing to do', async () => {
    loop.start();
    await settle();
    expect(claims).toBe(1);
    await tick(1000);
    expect(claims).toBe(1);
  });
});

describe('a claim that fails', () => {
  it('is retried after a second', async () => {
    claim = () => Promise.reject(new Error('the database is unreachable'));
    loop.start();
    await settle();
    await tick(999);
    expect(claims).toBe(1);
    claim = claimWaiting;
    waiting = ['a'];
    await tick(1);
    expect(running()).toEqual(['a']);
  });

  it('is counted as an unexpected error, unless the database is unreachable', async () => {
    const counted = () => metrics.registry.getSingleMetricAsString('activity_sync_errors_total');
    metrics.errors.reset();
    claim = () => Promise.reject(Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }));
    loop.start();
    await settle();
    expect([claims, await counted()]).toEqual([1, expect.not.stringContaining('component="test"')]);
    claim = () => Promise.reject(new Error('column "due" does not exist'));
    await tick(1000);
    expect([claims, await counted()]).toEqual([2, expect.stringMatching(/\{component="test"\} 1$/)]);
  });

  it('does not affect the running jobs', async () => {
    waiting = ['a'];
    loop.start();
    await settle();
    claim = () => Promise.reject(new Error('the database is unreachable'));
    loop.wake();
    await settle();
    expect(runs[0]?.signal.aborted).toBe(false);
  });
});

describe('a run that ends for an unforeseen reason', () => {
  it('frees its slot, and the loop continues', async () => {
    waiting = ['a'];
    loop.start();
    await settle();
    runs[0]?.fail(new Error('unforeseen'));
    await settle();
    expect(await metrics.workersBusy.get()).toMatchObject({ values: [{ value: 0 }] });
    waiting = ['b'];
    loop.wake();
    await settle();
    expect(running()).toEqual(['a', 'b']);
  });
});

describe('stopping', () => {
  it('claims nothing more, and waits for the running jobs', async () => {
    waiting = ['a'];
    loop.start();
    await settle();
    let stopped = false;
    const stop = loop.stop(1000).then(() => {
      stopped = true;
    });
    waiting = ['b'];
    await settle();
    expect({ stopped, running: running() }).toEqual({ stopped: false, running: ['a'] });
    runs[0]?.end();
    await stop;
    expect(running()).toEqual(['a']);
    expect(runs[0]?.signal.aborted).toBe(false);
  });

  it('aborts the jobs still running after the grace period', async () => {
    waiting = ['a'];
    loop.start();
    await settle();
    const stop = loop.stop(1000);
    await tick(999);
    expect(runs[0]?.signal.aborted).toBe(false);
    await tick(1);
    expect(runs[0]?.signal.aborted).toBe(true);
    runs[0]?.end();
    await stop;
  });

  it('runs a job that was being claimed at that moment, rather than losing it', async () => {
    const looked = Promise.withResolvers<Claimed<string>>();
    claim = () => looked.promise;
    loop.start();
    await settle();
    const stop = loop.stop(1000);
    looked.resolve({ jobs: ['a'] });
    await settle();
    expect(running()).toEqual(['a']);
    runs[0]?.end();
    await stop;
  });

  it('is safe before the start and when repeated, and the loop can be started again', async () => {
    await loop.stop(0);
    loop.start();
    loop.start();
    await loop.stop(0);
    await loop.stop(0);
    waiting = ['a'];
    loop.start();
    await settle();
    expect(running()).toEqual(['a']);
  });
});
