import type { BulkChange, LedgerEntry } from '../api/bodies.ts';
import { ask, withQuery } from '../api/client.ts';
import { countOf, inWords } from '../format.ts';
import { ActivityLink } from '../parts/activity-link.tsx';
import { AthleteLink } from '../parts/athlete-link.tsx';
import { Badge } from '../parts/badge.tsx';
import { BulkList } from '../parts/bulk-list.tsx';
import { confirmed } from '../parts/confirm.tsx';
import { Choice, IdFilter } from '../parts/filters.tsx';
import { act } from '../parts/messages.tsx';
import { Age } from '../parts/moment.tsx';
import { Page } from '../parts/page.tsx';
import { Pages } from '../parts/pages.tsx';
import { Empty, Shown } from '../parts/shown.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { useResource } from '../resource.ts';
import { Link, place } from '../router.tsx';
import { mayChange } from '../session.ts';

const CHANGES_EVERY_MS = 3000;
const PARAMETERS = ['result', 'athleteId', 'activityId', 'since', 'until', 'cursor'];

/** The ledger of what the provider delivered, newest first, with the results. */
export function DeliveriesView() {
  const { query } = place.value;
  const filter: Record<string, string | undefined> = Object.fromEntries(
    PARAMETERS.map((name) => [name, query.get(name) ?? undefined]),
  );
  const events = useResource<{ events: LedgerEntry[]; nextCursor: string | null }>(
    withQuery('/api/admin/webhook-events', { ...filter, limit: '50' }),
    ['webhook', 'jobs'],
  );
  const changes = useResource<{ changes: BulkChange[] }>('/api/admin/job-changes', ['jobs'], CHANGES_EVERY_MS);
  const { cursor: _, ...wanted } = filter;
  const isNarrowed = Object.values(wanted).some((value) => value !== undefined);
  return (
    <Page title="Deliveries">
      <div class="filters">
        <Choice
          label="Result"
          name="result"
          options={[
            { value: undefined, text: 'all' },
            { value: 'accepted', text: 'accepted' },
            { value: 'stale', text: 'out of date' },
            { value: 'refuted', text: 'refuted' },
          ]}
        />
        <IdFilter
          fields={[
            { name: 'athleteId', label: 'Athlete' },
            { name: 'activityId', label: 'Activity' },
            { name: 'since', label: 'Received from', kind: 'time' },
            { name: 'until', label: 'Received before', kind: 'time' },
          ]}
        />
      </div>
      <BulkList changes={changes} of="deliveries" />
      {mayChange() && isNarrowed && (
        <div class="bulk">
          <button type="button" onClick={() => replayMatching(wanted).then(changes.reload)}>
            Replay all
          </button>
        </div>
      )}
      <Shown resource={events}>
        {(page) => (
          <>
            {page.events.length === 0 ? (
              <Empty>No delivery matches.</Empty>
            ) : (
              <Table label="Deliveries" columns={mayChange() ? [...COLUMNS, REPLAY] : COLUMNS} rows={page.events} />
            )}
            <Pages nextCursor={page.nextCursor} />
          </>
        )}
      </Shown>
    </Page>
  );
}

const COLUMNS: readonly Column<LedgerEntry>[] = [
  { name: 'Received', cell: ({ receivedAt }) => <Age at={receivedAt} /> },
  { name: 'Event', minor: true, cell: ({ aspect }) => aspect },
  {
    name: 'Activity',
    cell: ({ activityId, job }) =>
      activityId === null ? (
        <span class="faint">–</span>
      ) : (
        <ActivityLink of={{ activityId, outcome: job?.outcome ?? null }} />
      ),
  },
  { name: 'Athlete', minor: true, cell: ({ athleteId }) => <AthleteLink id={athleteId} /> },
  { name: 'Result', cell: ({ result }) => <Badge state={result} />, minor: true },
  {
    name: 'Outcome',
    cell: ({ job }) =>
      job === null ? (
        <span class="faint">job deleted</span>
      ) : (
        <>
          <Badge state={job.status} /> <Link to={`/jobs/${job.id}`}>job {job.id}</Link>
          {job.outcome && job.outcome !== 'stored' && <span class="outcome">{inWords(job.outcome)}</span>}
        </>
      ),
  },
  { name: 'Times', numeric: true, minor: true, cell: ({ deliveries }) => deliveries },
];

const REPLAY: Column<LedgerEntry> = {
  name: 'Actions',
  cell: ({ id }) => (
    <button type="button" class="small" aria-label={`Replay delivery ${id}`} onClick={() => replay(id)}>
      Replay
    </button>
  ),
};

/** Replays all deliveries that match, in the background, after a confirmation that gives the number. */
async function replayMatching(filter: Record<string, string | undefined>): Promise<void> {
  const path = '/api/admin/webhook-events';
  await act(
    async () => {
      const { activities } = await ask<{ activities: number }>('GET', withQuery(`${path}/count`, filter));
      const count = countOf(activities, 'activity', 'activities');
      const sure = await confirmed({
        title: `Replay ${count}?`,
        text: 'The newest delivery of each activity that matches is replayed. A fetch costs a call of the provider’s budget; a deletion deletes.',
        action: 'Replay all',
      });
      if (!sure) return 'Nothing was changed.';
      await ask('POST', `${path}/replay`, { body: filter });
      return `Replay ${count}: started. It continues if you leave.`;
    },
    (message) => message,
  );
}

function replay(id: string): Promise<unknown> {
  return act(
    () => ask<{ status: string; jobId: string }>('POST', `/api/admin/webhook-events/${id}/replay`),
    ({ status, jobId }) =>
      status === 'stale' ? `Delivery ${id} is out of date; nothing was done.` : `Job ${jobId} replays it.`,
  );
}
