import { withoutCall } from '../../domain/error-text.ts';
import type { Job } from '../api/bodies.ts';
import { inWords } from '../format.ts';
import { Link } from '../router.tsx';
import { mayChange } from '../session.ts';
import { Badge } from './badge.tsx';
import { forceJob, retryJob } from './job-actions.ts';
import { Age, Earliest } from './moment.tsx';
import { type Column, Table } from './table.tsx';

/** Jobs in rows, with what can be done to each. */
export function JobTable({ jobs }: { jobs: readonly Job[] }) {
  return <Table label="Jobs" rows={jobs} columns={mayChange() ? [...COLUMNS, ACTIONS] : COLUMNS} />;
}

const COLUMNS: readonly Column<Job>[] = [
  { name: 'Job', cell: ({ id }) => <Link to={`/jobs/${id}`}>{id}</Link> },
  {
    name: 'Status',
    cell: ({ status, outcome }) => (
      <>
        <Badge state={status} />
        {outcome && outcome !== 'stored' && <span class="outcome">{inWords(outcome)}</span>}
      </>
    ),
  },
  { name: 'Activity', cell: ({ activityId }) => <span class="id">{activityId}</span> },
  { name: 'Athlete', minor: true, cell: ({ athleteId }) => <Link to={`/athletes/${athleteId}`}>{athleteId}</Link> },
  { name: 'Reason', minor: true, cell: ({ reason, force }) => `${reason}${force ? ', forced' : ''}` },
  { name: 'Retries', minor: true, numeric: true, cell: ({ attempts, maxAttempts }) => `${attempts}/${maxAttempts}` },
  {
    name: 'When',
    cell: ({ status, nextRunAt, updatedAt }) =>
      status === 'pending' && Date.parse(nextRunAt) > Date.now() ? (
        // Each of an athlete's thousand jobs may run after the cooldown, but only one will.
        <Earliest at={nextRunAt} />
      ) : (
        <Age at={updatedAt} />
      ),
  },
  {
    name: 'Last error',
    minor: true,
    cell: ({ error }) =>
      error ? (
        <span class="error-text" title={error}>
          {withoutCall(error)}
        </span>
      ) : (
        <span class="faint">–</span>
      ),
  },
];

const ACTIONS: Column<Job> = {
  name: 'Actions',
  minor: true,
  cell: (job) => (
    <span class="row-actions">
      <button
        type="button"
        class="small"
        disabled={job.status === 'working'}
        aria-label={`Retry job ${job.id}`}
        onClick={() => retryJob(job)}
      >
        Retry
      </button>
      <button type="button" class="small" aria-label={`Force re-fetch for job ${job.id}`} onClick={() => forceJob(job)}>
        Force
      </button>
    </span>
  ),
};
