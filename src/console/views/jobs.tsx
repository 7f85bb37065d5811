import { type Job, type JobStatus, REASONS, STATUSES, type Stats } from '../api/bodies.ts';
import { withQuery } from '../api/client.ts';
import { countOf, formatCount } from '../format.ts';
import { stats } from '../live.ts';
import { Choice, IdFilter } from '../parts/filters.tsx';
import { FindById } from '../parts/find-by-id.tsx';
import { deleteMatching, forceMatching, retryMatching } from '../parts/job-actions.ts';
import { JobTable } from '../parts/job-table.tsx';
import { Page } from '../parts/page.tsx';
import { Pages } from '../parts/pages.tsx';
import { Empty, Shown } from '../parts/shown.tsx';
import { useResource } from '../resource.ts';
import { place } from '../router.tsx';
import { mayChange } from '../session.ts';

/** Which jobs: the parameters of the address that the list, the count and the bulk actions share. */
export type JobQuery = Partial<Record<'status' | 'reason' | 'athleteId' | 'activityId', string>>;

const NAMES = ['status', 'reason', 'athleteId', 'activityId'] as const;

/** Fetch jobs, newest first. */
export function JobsView() {
  const { query } = place.value;
  const wanted: JobQuery = Object.fromEntries(
    NAMES.flatMap((name) => (query.get(name) ? [[name, query.get(name)]] : [])),
  );
  const jobs = useResource<{ stats: Stats; jobs: Job[]; nextCursor: string | null }>(
    withQuery('/api/admin/activity-jobs', { ...wanted, cursor: query.get('cursor') ?? undefined, limit: '50' }),
    ['jobs'],
  );
  const counts = stats.value ?? jobs.data?.stats;
  const nameOf = (status: JobStatus) => `${status}${counts ? ` ${formatCount(counts[status])}` : ''}`;
  return (
    <Page title="Jobs" actions={<FindById />}>
      <div class="filters">
        <Choice
          label="Status"
          name="status"
          options={[
            { value: undefined, text: 'all' },
            ...STATUSES.map((status) => ({ value: status, text: nameOf(status) })),
          ]}
        />
        <Choice
          label="Reason"
          name="reason"
          options={[{ value: undefined, text: 'any reason' }, ...REASONS.map((value) => ({ value, text: value }))]}
        />
        <IdFilter
          fields={[
            { name: 'athleteId', label: 'Athlete' },
            { name: 'activityId', label: 'Activity' },
          ]}
        />
      </div>
      <BulkActions query={wanted} />
      <Shown resource={jobs}>
        {(page) => (
          <>
            {page.jobs.length === 0 ? <Empty>No job matches.</Empty> : <JobTable jobs={page.jobs} />}
            <Pages nextCursor={page.nextCursor} />
          </>
        )}
      </Shown>
    </Page>
  );
}

/** What can be done to all jobs that match the filter, with their number. */
function BulkActions({ query }: { query: JobQuery }) {
  const count = useResource<{ count: number }>(withQuery('/api/admin/activity-jobs/count', query), ['jobs']);
  const matching = count.data?.count ?? 0;
  const isFinished = query.status === 'failed' || query.status === 'done';
  return (
    <div class="bulk">
      <span>
        {count.data === undefined
          ? count.error
            ? 'The matching jobs could not be counted.'
            : 'Counting…'
          : `${countOf(matching, 'job')} ${matching === 1 ? 'matches' : 'match'}`}
      </span>
      {mayChange() && matching > 0 && query.status === undefined && (
        <span class="faint">Choose a status to retry, re-fetch or delete all that match.</span>
      )}
      {mayChange() && matching > 0 && query.status !== undefined && (
        <span class="actions">
          {isFinished && (
            <button type="button" onClick={() => retryMatching(query)}>
              Retry all
            </button>
          )}
          <button type="button" onClick={() => forceMatching(query)}>
            Force re-fetch all
          </button>
          <button type="button" class="danger" onClick={() => deleteMatching(query)}>
            Delete all
          </button>
        </span>
      )}
    </div>
  );
}
