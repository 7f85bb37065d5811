import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import { THUMBNAIL_QUEUE } from '../infra/boss.ts';
import type { Database, Queryable } from '../infra/database.ts';
import { SupersededError } from './settle.ts';

/** A claimed thumbnail job. */
export interface ThumbnailRun {
  bossJobId: string;
  retryCount: number;
  activityId: Int64;
}

/** Asks for an activity's thumbnail inside the caller's transaction; one that waits already is enough. */
export async function requestThumbnail(boss: PgBoss, tx: Queryable, activityId: Int64): Promise<void> {
  await boss.insert(THUMBNAIL_QUEUE, [{ singletonKey: activityId, data: { activityId } }], { db: tx });
  await tx.query(`SELECT pg_notify('activity_sync', 'thumbnail')`, []);
}

export async function claimThumbnail(boss: PgBoss): Promise<ThumbnailRun | undefined> {
  const [job] = await boss.fetch<{ activityId: Int64 }>(THUMBNAIL_QUEUE, { batchSize: 1 });
  return job && { bossJobId: job.id, retryCount: job.retryCount, activityId: job.data.activityId };
}

/** Completes inside the caller's transaction. @throws SupersededError when the claim was lost */
export async function completeThumbnail(boss: PgBoss, tx: Queryable, run: ThumbnailRun): Promise<void> {
  const response = await boss.complete(THUMBNAIL_QUEUE, { id: run.bossJobId, retryCount: run.retryCount }, null, {
    db: tx,
  });
  if ((response as { affected?: number }).affected !== 1) throw new SupersededError({ jobId: run.bossJobId });
}

/** Counts a failure; pg-boss retries with backoff and gives up after five. @throws SupersededError when the claim was lost */
export async function failThumbnail(boss: PgBoss, db: Queryable, run: ThumbnailRun, error: string): Promise<void> {
  const claim = { id: run.bossJobId, retryCount: run.retryCount };
  const response = await boss.fail(THUMBNAIL_QUEUE, claim, { message: error }, { db });
  if ((response as { affected?: number }).affected !== 1) throw new SupersededError({ jobId: run.bossJobId });
}

/** Milliseconds until the next waiting thumbnail is due, by the database's clock; undefined when none waits. */
export async function waitForThumbnail(database: Database): Promise<number | undefined> {
  const [row] = await database.query<{ wait_ms: number | null }>(
    `SELECT ceil(extract(epoch FROM min(start_after) - sync_now()) * 1000)::float8 AS wait_ms
     FROM pgboss.job WHERE name = '${THUMBNAIL_QUEUE}' AND state < 'active' AND NOT blocked`,
    [],
  );
  return row?.wait_ms ?? undefined;
}

/** For how long the first thumbnail job in line has been due, in seconds by the database's clock; 0 when none is. */
export async function readThumbnailDelay(database: Queryable): Promise<number> {
  const [row] = await database.query<{ due_s: number }>(
    `SELECT greatest(0, extract(epoch FROM sync_now() - j.start_after))::float8 AS due_s
     FROM (SELECT id FROM due_thumbnails() LIMIT 1) first JOIN pgboss.job j ON j.name = '${THUMBNAIL_QUEUE}' AND j.id = first.id`,
    [],
  );
  return row?.due_s ?? 0;
}

/** Deletes the thumbnail jobs of these activities inside the caller's transaction. */
export async function deleteThumbnailJobs(boss: PgBoss, tx: Queryable, activityIds: readonly Int64[]): Promise<void> {
  if (activityIds.length === 0) return;
  const jobs = await tx.query<{ id: string }>(
    `SELECT id FROM pgboss.job WHERE name = '${THUMBNAIL_QUEUE}' AND singleton_key = ANY ($1::text[])`,
    [activityIds],
  );
  if (jobs.length > 0)
    await boss.deleteJob(
      THUMBNAIL_QUEUE,
      jobs.map(({ id }) => id),
      { db: tx },
    );
}
