import type { ErrorGroups } from '../api/bodies.ts';
import { withQuery } from '../api/client.ts';
import { countOf, formatCount } from '../format.ts';
import { useResource } from '../resource.ts';
import { Link } from '../router.tsx';
import { Age } from './moment.tsx';
import { hereWith } from './pages.tsx';
import { Shown } from './shown.tsx';
import { type Column, Table } from './table.tsx';

const EVERY_MS = 15_000;
const SHOWN = 5;

/** Failed jobs grouped by their error; each leads to its jobs. */
export function ErrorGroupList({ query }: { query: Record<string, string | undefined> }) {
  const { status: _, ...wanted } = query;
  const read = useResource<ErrorGroups>(withQuery('/api/admin/activity-jobs/errors', wanted), [], EVERY_MS);
  return (
    <Shown resource={read}>
      {({ groups, jobs, isWhole }) => {
        if (groups.length < 2) return null;
        const rows = groups.map((group) => ({ ...group, id: group.error }));
        return (
          <section class="block">
            <h2>Failures by error</h2>
            {!isWhole && <p class="faint">Of the newest {countOf(jobs, 'failed job')}.</p>}
            <Table label="Failures by error" rows={rows.slice(0, SHOWN)} columns={COLUMNS} />
            {rows.length > SHOWN && (
              <details>
                <summary>{countOf(rows.length - SHOWN, 'more error')}</summary>
                <Table label="More failures by error" rows={rows.slice(SHOWN)} columns={COLUMNS} />
              </details>
            )}
          </section>
        );
      }}
    </Shown>
  );
}

const COLUMNS: readonly Column<ErrorGroups['groups'][number] & { id: string }>[] = [
  {
    name: 'Error',
    cell: ({ error }) =>
      error === '' ? (
        <span class="faint">none recorded</span>
      ) : (
        <Link class="break" to={hereWith({ error })}>
          {error}
        </Link>
      ),
  },
  { name: 'Jobs', numeric: true, cell: ({ jobs }) => formatCount(jobs) },
  { name: 'Newest', cell: ({ newestAt }) => <Age at={newestAt} /> },
];
