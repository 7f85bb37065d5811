import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';
import { reopenJobs } from '../queue/requests.ts';
import { findJobsRefusedForAthlete } from '../store/fetch-jobs.ts';
import { recordRequests } from '../store/fetch-requests.ts';

/** Re-opens the jobs that ended for lack of an athlete's access, which is sufficient now. @returns how many */
export async function reopenRefused(boss: PgBoss, tx: Queryable, athleteId: Int64): Promise<number> {
  const reopened = await reopenJobs(boss, tx, await findJobsRefusedForAthlete(tx, athleteId));
  await recordRequests(tx, reopened, { kind: 'connect' });
  return reopened.length;
}
