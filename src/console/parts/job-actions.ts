import type { Job } from '../api/bodies.ts';
import { ask, withQuery } from '../api/client.ts';
import { countOf } from '../format.ts';
import { confirmed } from './confirm.tsx';
import { act } from './messages.tsx';

const JOBS = '/api/admin/activity-jobs';
const MANY = 100; // to delete more, the operator types their number
type Query = Record<string, string | undefined>;

/** Retries a job; a pending one no longer waits for its backoff. */
export function retryJob({ id }: Job): Promise<unknown> {
  return act(
    () => ask('POST', `${JOBS}/${id}/retry`),
    () => `Job ${id} will be retried.`,
  );
}

/** Requests a re-fetch of an activity that is already stored. */
export function forceJob({ id, activityId, athleteId }: Job): Promise<unknown> {
  return act(
    () => ask('POST', JOBS, { body: { activityId, athleteId, reason: 'manual', force: true } }),
    () => `Job ${id} re-fetches activity ${activityId}.`,
  );
}

/** Deletes a job after a confirmation. @returns whether it was deleted */
export async function deleteJob({ id, status }: Job): Promise<boolean> {
  const text =
    status === 'working'
      ? 'It runs now; its result will not be saved. The stored activity, if there is one, stays.'
      : 'Its attempts are deleted with it. The stored activity, if there is one, stays.';
  if (!(await confirmed({ title: `Delete job ${id}?`, text, action: 'Delete', destroys: true }))) return false;
  const done = await act(
    () => ask<{ deleted: number }>('DELETE', `${JOBS}/${id}`),
    () => `Job ${id} deleted.`,
  );
  return done !== undefined;
}

/** Retries all jobs that match, after a confirmation that gives their number. */
export function retryMatching(query: Query): Promise<void> {
  return changeMatching(query, 'Retry', 'Retry all', false, async () => {
    const { retried } = await ask<{ retried: number }>('POST', withQuery(`${JOBS}/retry`, query));
    return `${countOf(retried, 'job')} will be retried.`;
  });
}

/** Fetches the activities of all jobs that match, stored or not, after a confirmation that gives their number. */
export function forceMatching(query: Query): Promise<void> {
  return changeMatching(query, 'Re-fetch', 'Re-fetch all', false, async () => {
    const { forced } = await ask<{ forced: number }>('POST', withQuery(`${JOBS}/force`, query));
    return `${countOf(forced, 'activity', 'activities')} will be re-fetched.`;
  });
}

/** Deletes all jobs that match, after a confirmation that gives their number. */
export function deleteMatching(query: Query): Promise<void> {
  return changeMatching(query, 'Delete', 'Delete all', true, async () => {
    const { deleted } = await ask<{ deleted: number }>('DELETE', withQuery(JOBS, query));
    return `${countOf(deleted, 'job')} deleted.`;
  });
}

async function changeMatching(
  query: Query,
  verb: string,
  action: string,
  destroys: boolean,
  change: () => Promise<string>,
): Promise<void> {
  await act(
    async () => {
      const { count } = await ask<{ count: number }>('GET', withQuery(`${JOBS}/count`, query));
      const filter = Object.entries(query).map(([name, value]) => `${WORDS[name] ?? name} ${value}`);
      const text = `All jobs with ${filter.join(', ')}. Jobs that start to match before you confirm are included.`;
      const typed = destroys && count > MANY ? { typed: String(count) } : {};
      const sure = await confirmed({ title: `${verb} ${countOf(count, 'job')}?`, text, action, destroys, ...typed });
      return sure ? change() : 'Nothing was changed.';
    },
    (message) => message,
  );
}

const WORDS: Query = { athleteId: 'athlete', activityId: 'activity' };
