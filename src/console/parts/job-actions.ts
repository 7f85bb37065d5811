import type { Job } from '../api/bodies.ts';
import { ApiError, ask, withQuery } from '../api/client.ts';
import { countOf } from '../format.ts';
import { confirmed } from './confirm.tsx';
import { act } from './messages.tsx';

const JOBS = '/api/admin/activity-jobs';
const MANY = 100; // to delete more, the operator types their number
const ONE_BATCH = 500; // more are changed in the background
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
  return changeMatching(query, 'retry', 'Retry', 'Retry all', async () => {
    const { retried } = await ask<{ retried: number }>('POST', withQuery(`${JOBS}/retry`, query));
    return `${countOf(retried, 'job')} will be retried.`;
  });
}

/** Fetches the activities of all jobs that match, stored or not, after a confirmation that gives their number. */
export function forceMatching(query: Query): Promise<void> {
  return changeMatching(query, 'force', 'Re-fetch', 'Re-fetch all', async () => {
    const { forced } = await ask<{ forced: number }>('POST', withQuery(`${JOBS}/force`, query));
    return `${countOf(forced, 'activity', 'activities')} will be re-fetched.`;
  });
}

/** Deletes all jobs that match, after a confirmation that gives their number. */
export function deleteMatching(query: Query): Promise<void> {
  return changeMatching(query, 'delete', 'Delete', 'Delete all', async () => {
    const { deleted } = await ask<{ deleted: number }>('DELETE', withQuery(JOBS, query));
    return `${countOf(deleted, 'job')} deleted.`;
  });
}

/** Does the same to each of the selected jobs, one after the other; one that is refused does not stop the rest. */
export async function changeChosen(jobs: readonly Job[], verb: keyof typeof CHANGES): Promise<void> {
  const { title, text, done, destroys, change } = CHANGES[verb];
  const count = countOf(jobs.length, 'job');
  if (!(await confirmed({ title: `${title} ${count}?`, text, action: `${title} ${count}`, destroys }))) return;
  await act(
    async () => {
      const refusals: string[] = [];
      for (const job of jobs) {
        try {
          await change(job);
        } catch (error) {
          refusals.push(`job ${job.id}: ${error instanceof ApiError ? error.message : String(error)}`);
        }
      }
      const changed = `${countOf(jobs.length - refusals.length, 'job')} ${done}`;
      if (refusals.length === 0) return `${changed}.`;
      throw new ApiError(0, `${changed}, ${refusals.length} refused. ${refusals.join(' ')}`);
    },
    (message) => message,
  );
}

const CHANGES = {
  retry: {
    title: 'Retry',
    text: 'They run as soon as budget and cooldown allow. Running jobs cannot be retried.',
    done: 'retried',
    destroys: false,
    change: ({ id }: Job) => ask('POST', `${JOBS}/${id}/retry`),
  },
  force: {
    title: 'Re-fetch',
    text: 'Each costs a call of the provider’s budget, also where the activity is stored.',
    done: 'requested',
    destroys: false,
    change: ({ activityId, athleteId }: Job) =>
      ask('POST', JOBS, { body: { activityId, athleteId, reason: 'manual', force: true } }),
  },
  delete: {
    title: 'Delete',
    text: 'Their attempts are deleted with them. The stored activities stay.',
    done: 'deleted',
    destroys: true,
    change: ({ id }: Job) => ask('DELETE', `${JOBS}/${id}`),
  },
};

async function changeMatching(
  query: Query,
  change: 'retry' | 'force' | 'delete',
  verb: string,
  action: string,
  changeNow: () => Promise<string>,
): Promise<void> {
  await act(
    async () => {
      const { count } = await ask<{ count: number }>('GET', withQuery(`${JOBS}/count`, query));
      const filter = Object.entries(query).map(([name, value]) => `${WORDS[name] ?? name} ${value}`);
      const text = `All jobs with ${filter.join(', ')}. Jobs that start to match before you confirm are included.`;
      const destroys = change === 'delete';
      const typed = destroys && count > MANY ? { typed: String(count) } : {};
      const sure = await confirmed({ title: `${verb} ${countOf(count, 'job')}?`, text, action, destroys, ...typed });
      if (!sure) return 'Nothing was changed.';
      if (count <= ONE_BATCH) return changeNow();
      const started = await ask<{ total: number }>('POST', '/api/admin/job-changes', {
        body: { action: change, ...query },
      });
      return `${verb} ${countOf(started.total, 'job')}: started. It continues if you leave.`;
    },
    (message) => message,
  );
}

const WORDS: Query = { athleteId: 'athlete', activityId: 'activity', since: 'a change from', until: 'a change before' };
