import type { PgBoss } from 'pg-boss';
import { type Database, isLostAgainstAnother } from '../infra/database.ts';
import type { Run } from '../queue/claim.ts';
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
const TRIES = 3;
// A value out of PostgreSQL's range, or nested beyond its limits: one answer must not fail the others.
const OF_ONE_RUN = /^(22|23|54)...$/;

/** Under load, many runs share one transaction: what ends while one commits makes the next. */
export function createStoreRun(database: Database, boss: PgBoss): StoreRun {
  const storeInBatch = createBatcher<RunToStore, StoreResult>({
    maxBatch: MAX_BATCH,
    keyOf: ({ run }) => run.activityId,
    run: (batch) => storeTogether(database, batch),
    isOfOneItem: (error) => OF_ONE_RUN.test(String((error as { code?: unknown }).code)),
  });

  return async (run, activity, detail, cooldown) => {
    const result = await storeInBatch({ run, activity, detail, cooldown, answeredAt: answeredAtOf(cooldown) });
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

interface RunToStore {
  run: Run;
  activity: Activity;
  detail: string;
  cooldown: Cooldown;
  /** By performance.now(): a run may wait for the batch before. */
  answeredAt: number;
}

async function storeTogether(database: Database, batch: readonly RunToStore[]): Promise<StoreResult[]> {
  const runs = batch.map(({ run, activity, cooldown, answeredAt }, n) => ({
    ...activity,
    n,
    jobId: run.jobId,
    version: run.version,
    bossJobId: run.bossJobId,
    retryCount: run.retryCount,
    startedAt: run.startedAt,
    cooldownMs: cooldown.cooldownMs,
    answeredAgoMs: Math.round(performance.now() - answeredAt),
  }));
  const details = `[${batch.map(({ detail }) => detail).join(',')}]`;
  for (let attempt = 1; ; attempt += 1) {
    try {
      const rows = await database.query<{ job_id: string; result: StoreResult }>(
        'SELECT job_id, result FROM store_runs($1::text::jsonb, $2::text::jsonb)',
        [JSON.stringify(runs), details],
      );
      const results = new Map(rows.map((row) => [row.job_id, row.result]));
      return batch.map(({ run }) => results.get(run.jobId) ?? 'lost');
    } catch (error) {
      if (attempt >= TRIES || !isLostAgainstAnother(error)) throw error;
    }
  }
}

function answeredAtOf({ answeredAgoMs = 0 }: Cooldown): number {
  return performance.now() - answeredAgoMs;
}
