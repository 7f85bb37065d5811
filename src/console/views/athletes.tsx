import type { Athlete, Sync } from '../api/bodies.ts';
import { withQuery } from '../api/client.ts';
import { formatCount } from '../format.ts';
import { Badge } from '../parts/badge.tsx';
import { Choice } from '../parts/filters.tsx';
import { Age } from '../parts/moment.tsx';
import { Card, Page } from '../parts/page.tsx';
import { Pages } from '../parts/pages.tsx';
import { Empty, Shown } from '../parts/shown.tsx';
import { SyncForm } from '../parts/sync-form.tsx';
import { SyncList } from '../parts/sync-list.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { useResource } from '../resource.ts';
import { Link, place } from '../router.tsx';
import { mayChange } from '../session.ts';

const STATES = ['healthy', 'reconnect', 'scope'];
const SYNCS_SHOWN = '5';

/** Connected athletes, and the bulk syncs. */
export function AthletesView() {
  const { query } = place.value;
  const athletes = useResource<{ athletes: Athlete[]; nextCursor: string | null }>(
    withQuery('/api/admin/athletes', {
      state: query.get('state') ?? undefined,
      cursor: query.get('cursor') ?? undefined,
      limit: '50',
    }),
    ['athlete', 'jobs'],
  );
  const syncs = useResource<{ syncs: Sync[] }>(withQuery('/api/admin/syncs', { limit: SYNCS_SHOWN }), ['sync']);
  return (
    <Page
      title="Athletes"
      actions={
        <a class="button" href="/api/provider/connect">
          Connect an athlete
        </a>
      }
    >
      <div class="filters">
        <Choice
          label="State"
          name="state"
          options={[{ value: undefined, text: 'all' }, ...STATES.map((value) => ({ value, text: value }))]}
        />
      </div>
      <Shown resource={athletes}>
        {(page) => (
          <>
            {page.athletes.length === 0 ? (
              <Empty>No athlete {query.has('state') ? 'is in this state' : 'is connected yet'}.</Empty>
            ) : (
              <Table label="Athletes" columns={COLUMNS} rows={page.athletes} />
            )}
            <Pages nextCursor={page.nextCursor} words={['First', 'More']} />
          </>
        )}
      </Shown>
      <Card title="Bulk syncs" wide>
        {mayChange() && <SyncForm onBegun={syncs.reload} />}
        <Shown resource={syncs}>{(page) => <SyncList syncs={page.syncs} onChange={syncs.reload} />}</Shown>
      </Card>
    </Page>
  );
}

const COLUMNS: readonly Column<Athlete>[] = [
  {
    name: 'Athlete',
    cell: ({ id, name }) => (
      <Link class="break" to={`/athletes/${id}`}>
        {name ?? id}
      </Link>
    ),
  },
  { name: 'Id', minor: true, cell: ({ id }) => <span class="id">{id}</span> },
  { name: 'State', cell: ({ state }) => <Badge state={state} /> },
  { name: 'Last activity', cell: ({ lastActivityAt }) => <Age at={lastActivityAt} /> },
  {
    name: 'Waiting jobs',
    numeric: true,
    minor: true,
    cell: ({ id, waitingJobs }) =>
      waitingJobs === 0 ? '0' : <Link to={`/jobs?status=pending&athleteId=${id}`}>{formatCount(waitingJobs)}</Link>,
  },
  {
    name: 'Cooldown',
    minor: true,
    cell: ({ cooldownUntil }) =>
      cooldownUntil === null ? (
        <span class="faint">–</span>
      ) : (
        <>
          ends <Age at={cooldownUntil} />
        </>
      ),
  },
];
