import { useState } from 'preact/hooks';
import type { Job } from '../api/bodies.ts';
import { ApiError, ask, withQuery } from '../api/client.ts';
import { go } from '../router.tsx';
import { act } from './messages.tsx';

/** Goes to whatever has this id: a job, the job of an activity, or an athlete. */
export function FindById() {
  const [id, setId] = useState('');
  const find = async (event: Event) => {
    event.preventDefault();
    const wanted = id.trim();
    if (wanted === '') return;
    await act(
      async () => {
        const found = await findAddress(wanted);
        if (found) go(found.to);
        return found ? `${found.what} ${wanted}.` : `No job, activity or athlete has the id ${wanted}.`;
      },
      (message) => message,
    );
  };
  return (
    <form class="find" onSubmit={find}>
      <label>
        <span>Find by id</span>
        <input
          value={id}
          inputMode="numeric"
          pattern="\s*[0-9]{1,19}\s*"
          title="The id of a job, an activity or an athlete"
          placeholder="Job, activity or athlete"
          autoComplete="off"
          onInput={(event) => setId(event.currentTarget.value)}
        />
      </label>
      <button type="submit">Find</button>
    </form>
  );
}

async function findAddress(id: string): Promise<{ to: string; what: string } | undefined> {
  const [job, ofActivity, athlete] = await Promise.all([
    orNothing(ask('GET', `/api/admin/activity-jobs/${id}`)),
    ask<{ jobs: Job[] }>('GET', withQuery('/api/admin/activity-jobs', { activityId: id, limit: '1' })),
    orNothing(ask('GET', `/api/admin/athletes/${id}`)),
  ]);
  if (job) return { to: `/jobs/${id}`, what: 'Job' };
  const found = ofActivity.jobs[0];
  if (found) return { to: `/jobs/${found.id}`, what: 'The job of activity' };
  return athlete ? { to: `/athletes/${id}`, what: 'Athlete' } : undefined;
}

async function orNothing<Body>(answer: Promise<Body>): Promise<Body | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined;
    throw error;
  }
}
