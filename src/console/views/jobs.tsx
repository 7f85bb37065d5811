import { useState } from 'preact/hooks';
import { type BulkChange, type Job, type JobStatus, REASONS, STATUSES, type Stats } from '../api/bodies.ts';
import { withQuery } from '../api/client.ts';
import { countOf, formatCount } from '../format.ts';
import { stats } from '../live.ts';
import { BulkList } from '../parts/bulk-list.tsx';
import { ErrorGroupList } from '../parts/error-groups.tsx';
import { Choice, IdFilter } from '../parts/filters.tsx';
import { FindById } from '../parts/find-by-id.tsx';
import { changeChosen, deleteMatching, forceMatching, retryMatching } from '../parts/job-actions.ts';
import { JobTable } from '../parts/job-table.tsx';
import { Page } from '../parts/page.tsx';
import { Pages } from '../parts/pages.tsx';
import { Empty, Shown } from '../parts/shown.tsx';
import { useResource } from '../resource.ts';
import { place } from '../router.tsx';
import { mayChange } from '../session.ts';

/** Which jobs: the parameters of the address that the list, the count and the bulk actions share. */
export type JobQuery = Partial<Record<(typeof NAMES)[number], string>>;

const NAMES = ['status', 'reason', 'athleteId', 'activityId', 'since', 'until', 'error'] as const;
// Jobs of a time or an error are counted one by one: not for each event.
const COUNT_EVERY_MS = 15_000;
const CHANGES_EVERY_MS = 3000;

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
  const changes = useResource<{ changes: BulkChange[] }>('/api/admin/job-changes', ['jobs'], CHANGES_EVERY_MS);
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
            { name: 'error', label: 'Error contains', kind: 'text' },
            { name: 'since', label: 'Changed from', kind: 'time' },
            { name: 'until', label: 'Changed before', kind: 'time' },
          ]}
        />
      </div>
      <BulkList changes={changes} of="jobs" />
      {wanted.status === 'failed' && <ErrorGroupList query={wanted} />}
      <BulkActions query={wanted} onChange={changes.reload} />
      <Shown resource={jobs}>
        {(page) => (
          <>
            {page.jobs.length === 0 ? <Empty>No job matches.</Empty> : <ChosenJobs jobs={page.jobs} />}
            <Pages nextCursor={page.nextCursor} />
          </>
        )}
      </Shown>
    </Page>
  );
}

/** The jobs of a page, and what can be done to the selected ones. */
function ChosenJobs({ jobs }: { jobs: readonly Job[] }) {
  const [chosen, choose] = useState<ReadonlySet<string>>(new Set());
  // A job that left the page is no longer selected.
  const selected = jobs.filter(({ id }) => chosen.has(id));
  const change = async (verb: 'retry' | 'force' | 'delete') => {
    await changeChosen(selected, verb);
    choose(new Set());
  };
  return (
    <>
      {selected.length > 0 && (
        <div class="bulk">
          <span>{countOf(selected.length, 'job')} selected</span>
          <span class="actions">
            <button type="button" onClick={() => change('retry')}>
              Retry selected
            </button>
            <button type="button" onClick={() => change('force')}>
              Force re-fetch selected
            </button>
            <button type="button" class="danger" onClick={() => change('delete')}>
              Delete selected
            </button>
          </span>
        </div>
      )}
      <JobTable jobs={jobs} chosen={new Set(selected.map(({ id }) => id))} onChoose={choose} />
    </>
  );
}

/** What can be done to all jobs that match the filter, with their number. */
function BulkActions({ query, onChange }: { query: JobQuery; onChange: () => void }) {
  const isSlow = [query.since, query.until, query.error].some((value) => value !== undefined);
  const count = useResource<{ count: number }>(
    withQuery('/api/admin/activity-jobs/count', query),
    isSlow ? [] : ['jobs'],
    isSlow ? COUNT_EVERY_MS : undefined,
  );
  const changed = () => {
    count.reload();
    onChange();
  };
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
            <button type="button" onClick={() => retryMatching(query).then(changed)}>
              Retry all
            </button>
          )}
          <button type="button" onClick={() => forceMatching(query).then(changed)}>
            Force re-fetch all
          </button>
          <button type="button" class="danger" onClick={() => deleteMatching(query).then(changed)}>
            Delete all
          </button>
        </span>
      )}
    </div>
  );
}
