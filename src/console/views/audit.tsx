import type { AuditEntry } from '../api/bodies.ts';
import { withQuery } from '../api/client.ts';
import { Moment } from '../parts/moment.tsx';
import { Page } from '../parts/page.tsx';
import { Pages } from '../parts/pages.tsx';
import { Empty, Shown } from '../parts/shown.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { useResource } from '../resource.ts';
import { place } from '../router.tsx';

/** Who changed what through the admin interface, newest first. */
export function AuditView() {
  const audit = useResource<{ entries: AuditEntry[]; nextCursor: string | null }>(
    withQuery('/api/admin/audit', { cursor: place.value.query.get('cursor') ?? undefined, limit: '50' }),
    ['jobs', 'athlete', 'sync'],
  );
  return (
    <Page title="Audit" lead="Who changed what through the admin interface.">
      <Shown resource={audit}>
        {(page) => (
          <>
            {page.entries.length === 0 ? (
              <Empty>Nothing was changed yet.</Empty>
            ) : (
              <Table label="Audit" columns={COLUMNS} rows={page.entries} />
            )}
            <Pages nextCursor={page.nextCursor} />
          </>
        )}
      </Shown>
    </Page>
  );
}

const WHO = { admin: 'admin token', read: 'read token', session: 'browser session' };

const COLUMNS: readonly Column<AuditEntry>[] = [
  { name: 'When', cell: ({ at }) => <Moment at={at} /> },
  { name: 'Who', cell: ({ who }) => WHO[who] },
  { name: 'What', cell: ({ action }) => <code>{action.replace('/api/admin/', '')}</code> },
  {
    name: 'To',
    minor: true,
    cell: ({ target }) => (target === null ? <span class="faint">–</span> : <span class="id">{target}</span>),
  },
  {
    name: 'Particulars',
    minor: true,
    cell: ({ detail }) =>
      Object.keys(detail).length === 0 ? (
        <span class="faint">–</span>
      ) : (
        Object.entries(detail)
          .map(([name, value]) => `${name} ${String(value)}`)
          .join(', ')
      ),
  },
  { name: 'Answer', numeric: true, cell: ({ status }) => status ?? <span class="faint">not ended</span> },
];
