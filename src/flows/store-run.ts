import type { PgBoss } from 'pg-boss';
import type { Database, Queryable } from '../infra/database.ts';
import { isLockTimeout } from '../infra/database-errors.ts';
import { type ClaimRow, type Claims, type MarkClaims, type Run, readClaims } from '../queue/claim.ts';
import { type Cooldown, completeRun, SupersededError } from '../queue/settle.ts';
import { requestThumbnail } from '../queue/thumbnail-queue.ts';
import { type Activity, saveActivity } from '../store/activities.ts';
import { createBatcher } from './batcher.ts';

/**
 * Ends a run whose activity was fetched: activity, thumbnail job and completion commit together.
 * @param detail the provider's whole answer, as JSON text that PostgreSQL can store
 * @returns 'moved' when one more run follows, since requests came meanwhile
 * @throws SupersededError when the claim was lost; nothing is written
 */
export type StoreRun = (
  run: Run,
  activity: Activity,
  detail: string,
  cooldown: Cooldown,
) => Promise<'stored' | 'tombstone' | 'moved'>;

const MAX_BATCH = 50;
// A run that ends need not wait for the trip of the one before, only for the server to have done with it; but
// while another run may end soon, it waits for that one, since a trip for two costs little more than for one.
const DEPTH = 2;
// A value out of PostgreSQL's range, or nested beyond its limits: one answer must not fail the others.
const OF_ONE_RUN = /^(22|23|54)...$/;
// Nobody holds an athlete for that long but one who is lost: the others do not wait for it.
const LOCK_TIMEOUT_MS = 500;
// What had to wait with the locked athlete has waited long enough.
const LOCK_TIMEOUT_AFTER_THAT_MS = 100;
// A run that is held up waits by itself from then on.
const LOCK_TIMEOUT_ALONE_MS = 2000;

/** Runs that take the place of those that end, claimed in the same trip to the database. */
export interface Successors {
  /** @returns how many to claim when so many end */
  wanted(ending: number): number;
  holdMs: number;
  markClaims: MarkClaims;
  /** How many runs are under way, those that end included. */
  running(): number;
  start(runs: Run[], asked: number): void;
}

/**
 * Under load, many runs share one transaction: what ends while one commits makes the next. A run whose athlete
 * somebody has locked fails with a lock timeout, alone; when it is stored again, it waits on a connection of its own.
 */
export function createStoreRun(database: Database, boss: PgBoss, successors: Successors): StoreRun {
  const pipeline = database.openPipeline({ lockTimeoutMs: LOCK_TIMEOUT_MS });
  const afterLock = database.openPipeline({ lockTimeoutMs: LOCK_TIMEOUT_AFTER_THAT_MS });
  const heldUp = new WeakSet<Run>();
  const storeInBatch = createBatcher<RunToStore, Stored>({
    maxBatch: MAX_BATCH,
    depth: DEPTH,
    areAll: (ending) => ending >= successors.running(),
    keyOf: ({ run }) => run.activityId,
    run: async (batch, isPart) => {
      // A part claims nothing: it may have been the claim that was held up.
      if (isPart) return storeOnly(afterLock, batch);
      const asked = successors.wanted(batch.length);
      if (asked === 0) return storeOnly(pipeline, batch);
      const { results, claims } = await storeAndClaim(pipeline, database, boss, batch, asked, successors);
      const follow = () => successors.start(claims.runs, asked);
      return results.map((result, n) => (n === 0 ? { result, follow } : { result }));
    },
    isOfOneItem: (error) => OF_ONE_RUN.test(String((error as { code?: unknown }).code)),
    groups: { of: ({ run }) => run.athleteId, isOfOne: isLockTimeout },
  });
  const storeAlone = (item: RunToStore): Promise<Stored> =>
    database.transaction(async (tx) => {
      await tx.query(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_ALONE_MS}`);
      const [stored] = await storeOnly(tx, [item]);
      return stored as Stored;
    });

  return async (run, activity, detail, cooldown) => {
    const item = { run, activity, detail, cooldown, answeredAt: answeredAtOf(cooldown) };
    const stored = heldUp.has(run) ? storeAlone(item) : storeInBatch(item);
    const { result, follow } = await stored.catch((error: unknown) => {
      if (isLockTimeout(error)) heldUp.add(run);
      throw error;
    });
    follow?.();
    if (result === 'lost') throw new SupersededError(run);
    if (result !== 'moved') return result;
    await database.transaction(async (tx) => {
      await completeRun(boss, tx, run, 'stored', cooldown);
      if (await saveActivity(tx, activity, detail, run.startedAt))
        await requestThumbnail(boss, tx, activity.activityId);
    });
    return 'moved';
  };
}

type StoreResult = 'stored' | 'tombstone' | 'moved' | 'lost';

interface Stored {
  result: StoreResult;
  /** Starts the successors of the whole batch; the first of it has it. */
  follow?: (() => void) | undefined;
}

interface RunToStore {
  run: Run;
  activity: Activity;
  detail: string;
  cooldown: Cooldown;
  /** By performance.now(): a run may wait for the batch before. */
  answeredAt: number;
}

const STORE = 'SELECT store_runs($1::text::jsonb, $2::text::json) AS results';

async function storeOnly(target: Queryable, batch: readonly RunToStore[]): Promise<Stored[]> {
  const [row] = await target.query<{ results: StoreResult[] }>(STORE, valuesOf(batch));
  return (row?.results ?? []).map((result) => ({ result }));
}

// The claim follows the store: it is made for the row that the store returned.
const STORE_AND_CLAIM = `
  SELECT s.results, c.*
  FROM store_runs($1::text::jsonb, $2::text::json) s (results)
  LEFT JOIN LATERAL claim_runs(CASE WHEN s.results IS NOT NULL THEN $3::integer END, $4, $5) c ON true`;

async function storeAndClaim(
  pipeline: Queryable,
  database: Database,
  boss: PgBoss,
  batch: readonly RunToStore[],
  asked: number,
  { holdMs, markClaims }: Successors,
): Promise<{ results: StoreResult[]; claims: Claims }> {
  const claimedAt = performance.now();
  return markClaims(async (mark) => {
    const values = [...valuesOf(batch), asked, holdMs, mark];
    const rows = await pipeline.query<ClaimRow & { results: StoreResult[] }>(STORE_AND_CLAIM, values);
    return { results: rows[0]?.results ?? [], claims: await readClaims(database, boss, rows, claimedAt) };
  });
}

function valuesOf(batch: readonly RunToStore[]): [string, string] {
  const runs = batch.map(({ run, activity, cooldown, answeredAt }, n) => ({
    ...activity,
    n: n + 1,
    jobId: run.jobId,
    version: run.version,
    bossJobId: run.bossJobId,
    retryCount: run.retryCount,
    startedAt: run.startedAt,
    cooldownMs: cooldown.cooldownMs,
    answeredAgoMs: Math.round(performance.now() - answeredAt),
  }));
  return [JSON.stringify(runs), `[${batch.map(({ detail }) => detail).join(',')}]`];
}

function answeredAtOf({ answeredAgoMs = 0 }: Cooldown): number {
  return performance.now() - answeredAgoMs;
}
