import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import { THUMBNAIL_QUEUE } from '../infra/boss.ts';
import type { Database, Queryable } from '../infra/database.ts';
import { notify } from '../infra/notify.ts';
import { attemptsOf, type ClaimToken, deleteClaims, mustAffect, saveClaims } from './claims.ts';
import { type FindDead, rescueDead } from './rescue-dead.ts';

/** A claimed thumbnail job. */
export interface ThumbnailRun extends ClaimToken {
  activityId: Int64;
}

/** Requests pictures of activities inside the caller's transaction; one that is already waiting is enough. */
export async function requestThumbnails(boss: PgBoss, tx: Queryable, activityIds: readonly Int64[]): Promise<void> {
  if (activityIds.length === 0) return;
  const jobs = activityIds.map((activityId) => ({ singletonKey: activityId, data: { activityId } }));
  await boss.insert(THUMBNAIL_QUEUE, jobs, { db: tx });
  await notify(tx, 'thumbnail');
}

/** Claims the next picture for a process, or says how long until one is due (undefined: none waits). */
export async function claimThumbnail(
  database: Database,
  boss: PgBoss,
  processId: number,
): Promise<{ run: ThumbnailRun } | { waitMs: number | undefined }> {
  return database.transaction(async (tx) => {
    const [job] = await boss.fetch<{ activityId: Int64 }>(THUMBNAIL_QUEUE, { batchSize: 1, db: tx });
    if (!job) return { waitMs: await findWait(tx) };
    await saveClaims(tx, [job.id], THUMBNAIL_QUEUE, processId);
    return { run: { bossJobId: job.id, retryCount: job.retryCount, activityId: job.data.activityId } };
  });
}

/** Completes inside the caller's transaction. @throws ClaimLostError */
export async function completeThumbnail(boss: PgBoss, tx: Queryable, run: ThumbnailRun): Promise<void> {
  await mustAffect([run], boss.complete(THUMBNAIL_QUEUE, attemptsOf([run]), null, { db: tx }));
  await deleteClaims(tx, [run.bossJobId]);
}

/** Counts a failure; pg-boss retries with backoff and gives up after five. @throws ClaimLostError */
export async function failThumbnail(boss: PgBoss, tx: Queryable, run: ClaimToken, error: string): Promise<void> {
  await mustAffect([run], boss.fail(THUMBNAIL_QUEUE, attemptsOf([run]), { message: error }, { db: tx }));
  await deleteClaims(tx, [run.bossJobId]);
}

/**
 * Reclaims the pictures of workers that died: due at once the first time, after pg-boss's backoff from then on.
 * @returns how many
 */
export async function rescueThumbnails(database: Database, boss: PgBoss, findDead: FindDead): Promise<number> {
  return rescueDead(database, 'thumbnail_queue', findDead, async (tx, claim) => {
    await failThumbnail(boss, tx, claim, 'The worker process died while it drew the picture; the job was reclaimed.');
    if (claim.retryCount === 0)
      await boss.update(THUMBNAIL_QUEUE, undefined, { id: claim.bossJobId, startAfter: 0, db: tx });
    await notify(tx, 'thumbnail');
  });
}

async function findWait(tx: Queryable): Promise<number | undefined> {
  const [row] = await tx.query<{ wait_ms: number | null }>(
    `SELECT ceil(extract(epoch FROM min(start_after) - sync_now()) * 1000)::float8 AS wait_ms FROM thumbnail_queue() WHERE waiting`,
    [],
  );
  return row?.wait_ms ?? undefined;
}

/** How long the next picture has been due, in seconds by the database's clock; 0 when none is. */
export async function readThumbnailDelay(database: Queryable): Promise<number> {
  const [row] = await database.query<{ due_s: number }>(
    `SELECT greatest(0, extract(epoch FROM sync_now() - start_after))::float8 AS due_s
     FROM thumbnail_queue() WHERE waiting AND start_after <= sync_now() LIMIT 1`,
    [],
  );
  return row?.due_s ?? 0;
}

/** Deletes the thumbnail jobs of these activities inside the caller's transaction. */
export async function deleteThumbnailJobs(boss: PgBoss, tx: Queryable, activityIds: readonly Int64[]): Promise<void> {
  if (activityIds.length === 0) return;
  const jobs = await tx.query<{ id: string }>(
    'SELECT boss_job_id AS id FROM thumbnail_queue() WHERE activity_id = ANY ($1::bigint[])',
    [activityIds],
  );
  if (jobs.length > 0)
    await boss.deleteJob(
      THUMBNAIL_QUEUE,
      jobs.map(({ id }) => id),
      { db: tx },
    );
}
