import { TestClock } from 'pg-boss';
import { deleteJob } from '../../src/flows/delete-jobs.ts';
import { fetchActivity } from '../../src/flows/fetch-activity.ts';
import { retryJob } from '../../src/flows/retry-jobs.ts';
import { createBoss } from '../../src/infra/boss.ts';
import { createSilentLogger } from '../../src/infra/logger.ts';
import { ProviderError } from '../../src/provider/errors.ts';
import { activityDetailSchema } from '../../src/provider/schemas.ts';
import { type AcceptResult, acceptEvents } from '../../src/queue/accept.ts';
import { createBudget } from '../../src/queue/budget.ts';
import { claimRun, type Run } from '../../src/queue/claim.ts';
import { ClaimLostError } from '../../src/queue/claims.ts';
import { createCompleter } from '../../src/queue/completer.ts';
import { type RequestResult, requestFetches } from '../../src/queue/requests.ts';
import { createRescueRuns } from '../../src/queue/rescue.ts';
import type { RunResult, Settlement } from '../../src/queue/settlement.ts';
import { createTestDatabase, openTestDatabase } from '../support/database.ts';
import { type Answer, CONNECTED_ATHLETES, type Operation, WORKERS } from './operations.ts';
import { readState, type State } from './state.ts';

export const START = Date.parse('2025-05-06T12:05:00Z');
export const WINDOW_MS = 900_000;
export const CAPACITY = 8;
export const COOLDOWN_MS = 20_000;
/** A call ends within this time, or is given up. */
export const CALL_MS = 10_000;
export const STALE_AFTER_MS = 120_000;
export const BACKOFF_MS = 60_000;
const THROTTLED_MS = 30_000;
const TICK_MS = 1;

/** A run in the hands of a worker, and when it began. */
export interface HeldRun {
  run: Run;
  processId: number;
  at: number;
}

/** An operation with its result, at a time of the history. */
export type Happened = { at: number } & (
  | { what: 'nothing' }
  | { what: 'event'; operation: Operation & { do: 'event' }; result: AcceptResult['result'] }
  | { what: 'request'; operation: Operation & { do: 'request' }; result: RequestResult['result'] }
  | { what: 'claim'; held?: HeldRun; waitMs: number | undefined }
  | {
      what: 'settle';
      held: HeldRun;
      settlement: Settlement;
      calls: number;
      callEnd: number;
      result: RunResult | 'lost';
    }
  | { what: 'crash'; processId: number }
  | { what: 'rescue'; dead: number; stale: number }
  | { what: 'retry'; activityId: string; result: 'absent' | 'running' | 'retried' }
  | { what: 'delete'; activityId: string; deleted: boolean }
);

/** The queue on a real database, with workers that a history plays; its clock is frozen until it is moved. */
export interface World {
  /** Starts a new history: nothing was ever requested. */
  reset(): Promise<void>;
  perform(operation: Operation): Promise<Happened[]>;
  /** Settles what is in the workers' hands with 'found', rescues the dead, claims and waits, until nothing is left. */
  drain(check: (happened: Happened[]) => Promise<void>): Promise<void>;
  readState(): Promise<State>;
  /** The history's time, in milliseconds. */
  now(): number;
  /** Breaks the schema, to show that the check finds it. */
  sabotage(functionName: string, text: string, replacement: string): Promise<void>;
  close(): Promise<void>;
}

export async function createWorld(): Promise<World> {
  const testDatabase = await createTestDatabase();
  const database = openTestDatabase(testDatabase.url, 4);
  const logger = createSilentLogger();
  const clock = new TestClock(START);
  const boss = createBoss({ database, clock, logger, migrate: false, supervise: false });
  await boss.start();
  const budget = createBudget(database);
  const deps = { database, boss };
  const completer = createCompleter({ ...deps, logger, cooldownMs: COOLDOWN_MS, backoffMs: () => BACKOFF_MS });
  let dead = new Set<number>();
  const rescueRuns = createRescueRuns({
    database,
    completer,
    logger,
    staleAfterMs: STALE_AFTER_MS,
    processId: () => undefined,
    findDead: async (ids) => ids.filter((id) => dead.has(id)),
    inHand: () => new Set(),
  });
  let workers: { processId: number; hand: HeldRun[] }[] = [];
  let lastProcess = 0;
  const newWorker = () => {
    lastProcess += 1;
    return { processId: lastProcess, hand: [] };
  };

  const settle = async (held: HeldRun, answer: Answer): Promise<Happened> => {
    const { run } = held;
    const at = clock.now();
    const callEnd = Math.min(at, held.at + CALL_MS);
    let calls = 0;
    const provider = {
      getActivity: async () => {
        calls += 1;
        return answerTo(run, answer);
      },
    };
    const settlement = await fetchActivity(
      {
        provider,
        budget,
        accessTokens: { get: async () => 'token' } as never,
        grantValidMs: Infinity,
        callWithinMs: Infinity,
        persist: (work) => work(),
      },
      run,
      new AbortController().signal,
    );
    // The call ended at a time of the history.
    if (settlement.lastCall) settlement.lastCall = { at: performance.now() - (at - callEnd) };
    const result = await completer.settle(run, settlement, { until: performance.now() }).catch((error: unknown) => {
      if (error instanceof ClaimLostError) return 'lost' as const;
      throw error;
    });
    return { at, what: 'settle', held, settlement, calls, callEnd, result };
  };

  const jobIdOf = async (activityId: string): Promise<string> => {
    const [row] = await database.query<{ id: string }>('SELECT id FROM activity_fetch_job WHERE activity_id = $1', [
      activityId,
    ]);
    return row?.id ?? '0';
  };

  const performOne = async (operation: Exclude<Operation, { do: 'together' }>): Promise<Happened> => {
    const at = clock.now();
    const worker = 'worker' in operation ? workers[operation.worker] : undefined;
    switch (operation.do) {
      case 'event': {
        const { activityId, athleteId, aspect, signed, atMs } = operation;
        const event = { aspect, signed, subscriptionId: '1', updates: {}, eventTime: new Date(START + atMs) };
        const [one] = await database.transaction((tx) =>
          acceptEvents(boss, tx, [{ ...event, objectId: activityId, ownerId: athleteId }]),
        );
        return { at, what: 'event', operation, result: (one as AcceptResult).result };
      }
      case 'request': {
        const { do: _, ...request } = operation;
        const [one] = await database.transaction((tx) => requestFetches(boss, tx, [request]));
        return { at, what: 'request', operation, result: (one as RequestResult).result };
      }
      case 'claim': {
        const { processId, hand } = worker as (typeof workers)[number];
        const { run, waitMs } = await claimRun(database, boss, { processId, holdMs: COOLDOWN_MS + CALL_MS });
        if (!run) return { at, what: 'claim', waitMs };
        const held = { run, processId, at };
        hand.push(held);
        return { at, what: 'claim', held, waitMs };
      }
      case 'settle': {
        const held = worker?.hand.shift();
        return held ? settle(held, operation.answer) : { at, what: 'nothing' };
      }
      case 'crash': {
        const { processId } = worker as (typeof workers)[number];
        dead.add(processId);
        workers[operation.worker] = newWorker();
        return { at, what: 'crash', processId };
      }
      case 'rescue': {
        const { dead, stale } = await rescueRuns();
        return { at, what: 'rescue', dead, stale };
      }
      case 'retry': {
        const job = await retryJob(deps, await jobIdOf(operation.activityId));
        const result = job === undefined ? 'absent' : job === 'working' ? 'running' : 'retried';
        return { at, what: 'retry', activityId: operation.activityId, result };
      }
      case 'delete': {
        const deleted = await deleteJob(deps, await jobIdOf(operation.activityId));
        return { at, what: 'delete', activityId: operation.activityId, deleted };
      }
      case 'advance':
        await clock.setTime(at + operation.ms);
        return { at, what: 'nothing' };
    }
  };

  const perform: World['perform'] = async (operation) => {
    await clock.setTime(clock.now() + TICK_MS); // no two steps at one time
    if (operation.do !== 'together') return [await performOne(operation)];
    return Promise.all(operation.both.map((one) => performOne(one as Exclude<Operation, { do: 'together' }>)));
  };

  return {
    perform,
    reset: async () => {
      await database.query(RESET);
      await database.query(
        `INSERT INTO athlete (athlete_id, access_token, refresh_token, token_expires_at, scope)
         SELECT a, 'access', 'refresh', 'infinity', 'read' FROM unnest($1::bigint[]) a`,
        [CONNECTED_ATHLETES],
      );
      await budget.configure({ capacity: CAPACITY, intervalMs: WINDOW_MS });
      await clock.setTime(START);
      dead = new Set();
      lastProcess = 0;
      workers = Array.from({ length: WORKERS }, newWorker);
    },
    drain: async (check) => {
      for (let steps = 0; steps < MOST_STEPS; steps += 1) {
        for (const [n, { hand }] of workers.entries())
          while (hand.length > 0) await check(await perform({ do: 'settle', worker: n, answer: 'found' }));
        const claimed = await perform({ do: 'claim', worker: 0 });
        await check(claimed);
        const [claim] = claimed;
        const at = clock.now();
        if (claim?.what !== 'claim' || claim.held) continue;
        const rescued = await perform({ do: 'rescue' });
        await check(rescued);
        if (rescued.some((one) => one.what === 'rescue' && one.dead + one.stale > 0)) continue;
        if (claim.waitMs === undefined) return;
        await clock.setTime(at + claim.waitMs);
      }
      throw new Error(`Jobs are still open after ${MOST_STEPS} claims, each made when the one before had said.`);
    },
    readState: () => readState(database),
    now: () => clock.now(),
    sabotage: async (functionName, text, replacement) => {
      const [row] = await database.query<{ source: string }>('SELECT pg_get_functiondef($1::regproc) AS source', [
        functionName,
      ]);
      const source = row?.source ?? '';
      if (!source.includes(text)) throw new Error(`${functionName} does not contain "${text}".`);
      await database.query(source.replace(text, replacement));
    },
    close: async () => {
      await boss.stop({ graceful: false, close: false });
      await database.close();
      await testDatabase.drop();
    },
  };
}

const MOST_STEPS = 300;

const RESET = `
  DELETE FROM activity; DELETE FROM activity_tombstone; DELETE FROM webhook_event; DELETE FROM activity_fetch_job; DELETE FROM job_count;
  DELETE FROM job_claim; DELETE FROM athlete_schedule; DELETE FROM athlete; DELETE FROM pgboss.job;
  DELETE FROM rate_budget; INSERT INTO rate_budget DEFAULT VALUES`;

const OTHER_ATHLETE = '9';

/** Each answer has a name of its own, so that it is known in the database. @throws ProviderError */
function answerTo(run: Run, answer: Answer) {
  if (answer === 404) throw new ProviderError('NOT_FOUND', 'There is no such activity.', { status: 404 });
  if (answer === 500) throw new ProviderError('SERVER', 'The provider failed.', { status: 500 });
  if (answer === 429)
    throw new ProviderError('THROTTLED', 'Too many calls.', { status: 429, retryAfterMs: THROTTLED_MS });
  const detail = activityDetailSchema.parse({
    id: run.activityId,
    athlete: { id: answer === 'found' ? run.athleteId : OTHER_ATHLETE },
    name: run.startedAt,
    sport_type: 'Run',
    start_date: '2025-05-06T06:00:00Z',
  });
  return { detail, body: '{}' };
}
