import { withoutCall } from '../../domain/error-text.ts';
import type { Job } from '../api/bodies.ts';
import { inWords } from '../format.ts';
import { Link } from '../router.tsx';
import { mayChange } from '../session.ts';
import { ActivityLink } from './activity-link.tsx';
import { AthleteLink } from './athlete-link.tsx';
import { Badge } from './badge.tsx';
import { forceJob, retryJob } from './job-actions.ts';
import { Age, Earliest } from './moment.tsx';
import { type Column, Table } from './table.tsx';

/**
 * Jobs in rows, with what can be done to each.
 * @param chosen the ids of the selected rows
 */
export function JobTable({
  jobs,
  chosen,
  onChoose,
}: {
  jobs: readonly Job[];
  chosen: ReadonlySet<string>;
  onChoose: (ids: ReadonlySet<string>) => void;
}) {
  const columns = mayChange() ? [choiceOf(jobs, chosen, onChoose), ...COLUMNS, ACTIONS] : COLUMNS;
  return <Table label="Jobs" rows={jobs} columns={columns} />;
}

function choiceOf(
  jobs: readonly Job[],
  chosen: ReadonlySet<string>,
  choose: (ids: ReadonlySet<string>) => void,
): Column<Job> {
  const areAll = jobs.every(({ id }) => chosen.has(id));
  const toggle = (id: string) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    choose(next);
  };
  return {
    name: 'Select',
    head: (
      <input
        type="checkbox"
        aria-label="Select all jobs on this page"
        checked={areAll}
        onChange={() => choose(new Set(areAll ? [] : jobs.map(({ id }) => id)))}
      />
    ),
    cell: ({ id }) => (
      <input type="checkbox" aria-label={`Select job ${id}`} checked={chosen.has(id)} onChange={() => toggle(id)} />
    ),
  };
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
  { name: 'Activity', cell: (job) => <ActivityLink of={job} /> },
  { name: 'Athlete', minor: true, cell: ({ athleteId }) => <AthleteLink id={athleteId} /> },
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
