import type { PgBoss } from 'pg-boss';
import { type Database, isLostAgainstAnother } from '../infra/database.ts';
import type { Run } from '../queue/claim.ts';
import { type Cooldown, completeRun, SupersededError } from '../queue/settle.ts';
import { requestThumbnail } from '../queue/thumbnail-queue.ts';
import { type Activity, saveActivity } from '../store/activities.ts';

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

const CLAIM_LOST = 'SY001';

export function createStoreRun(database: Database, boss: PgBoss): StoreRun {
  const inOneTrip = async (run: Run, activity: Activity, detail: string, cooldown: Cooldown) => {
    const facts = {
      ...activity,
      jobId: run.jobId,
      version: run.version,
      bossJobId: run.bossJobId,
      retryCount: run.retryCount,
      startedAt: run.startedAt,
      cooldownMs: cooldown.cooldownMs,
      answeredAgoMs: Math.round(cooldown.answeredAgoMs ?? 0),
    };
    try {
      const [row] = await database.query<{ result: 'stored' | 'tombstone' | 'moved' }>(
        'SELECT store_run($1::text::jsonb, $2) AS result',
        [JSON.stringify(facts), detail],
      );
      return row?.result ?? 'moved';
    } catch (error) {
      const { code } = error as { code?: unknown };
      if (code === CLAIM_LOST) throw new SupersededError(run);
      if (isLostAgainstAnother(error)) return 'moved'; // the long way tries again
      throw error;
    }
  };

  return async (run, activity, detail, cooldown) => {
    const result = await inOneTrip(run, activity, detail, cooldown);
    if (result !== 'moved') return result;
    await database.transaction(async (tx) => {
      await completeRun(boss, tx, run, 'stored', cooldown);
      if (await saveActivity(tx, activity, detail, run.startedAt))
        await requestThumbnail(boss, tx, activity.activityId);
    });
    return 'moved';
  };
}
