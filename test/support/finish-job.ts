import type { Rig } from './service.ts';

/** Ends a job that no worker claimed, through the queue's own functions. @param daysAgo when it was requested and ended */
export async function finishJob(rig: Rig, jobId: string, outcome: 'stored' | 'notFound', daysAgo = 0): Promise<void> {
  const { database, boss } = rig.service;
  const [row] = await database.query<{ boss_job_id: string }>(
    `UPDATE activity_fetch_job SET outcome = $2, requested_at = requested_at - $3 * interval '1 day' WHERE id = $1 RETURNING boss_job_id`,
    [jobId, outcome, daysAgo],
  );
  const bossJob = row?.boss_job_id as string;
  if (outcome === 'stored') await boss.complete('activity-fetch', bossJob, null, { includeQueued: true });
  else await boss.cancel('activity-fetch', bossJob);
  await database.query(
    `UPDATE pgboss.job SET created_on = created_on - $2 * interval '1 day', completed_on = now() - $2 * interval '1 day'
     WHERE name = 'activity-fetch' AND id = $1`,
    [bossJob, daysAgo],
  );
}
