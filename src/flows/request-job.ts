import type { PgBoss } from 'pg-boss';
import type { FetchRequest } from '../domain/job.ts';
import type { Database } from '../infra/database.ts';
import { requestFetches } from '../queue/requests.ts';
import { findOwner } from '../store/activities.ts';
import { type FetchJob, findFetchJobOfActivity } from '../store/fetch-jobs.ts';
import { type Requester, recordRequests } from '../store/fetch-requests.ts';
import { keepFromSyncs } from '../store/sync-items.ts';

/** The activity already has a job for another athlete, or is stored as theirs. */
export class OtherAthleteError extends Error {
  override name = 'OtherAthleteError';
  readonly code = 'OTHER_ATHLETE';
}

/**
 * Requests one fetch manually.
 * @returns the job, and whether it already existed, so that the request joined it
 * @throws OtherAthleteError
 */
export async function requestJob(
  deps: { database: Database; boss: PgBoss },
  request: FetchRequest,
  by?: Requester,
): Promise<{ job: FetchJob; joined: boolean }> {
  return deps.database.transaction(async (tx) => {
    const standing = await findFetchJobOfActivity(tx, request.activityId);
    if (standing && standing.athleteId !== request.athleteId) {
      throw new OtherAthleteError(
        `Job ${standing.id} says that activity ${request.activityId} is athlete ${standing.athleteId}'s. Delete that job if it is wrong, then repeat the request.`,
      );
    }
    const owner = standing ? undefined : await findOwner(tx, request.activityId);
    if (owner !== undefined && owner !== request.athleteId)
      throw new OtherAthleteError(`Activity ${request.activityId} is stored as athlete ${owner}'s.`);
    await requestFetches(deps.boss, tx, [request]);
    const job = (await findFetchJobOfActivity(tx, request.activityId)) as FetchJob;
    await keepFromSyncs(tx, job.id);
    await recordRequests(tx, [job.id], { kind: 'request', by });
    return { job, joined: standing?.status === 'pending' || standing?.status === 'working' };
  });
}
