import type { AuditEntry } from '../api/bodies.ts';
import { withQuery } from '../api/client.ts';
import { Breakable } from '../parts/breakable.tsx';
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
              <Empty>No changes yet.</Empty>
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

const WHO = {
  admin: 'admin token',
  read: 'read token',
  session: 'browser session',
  application: 'application',
  nobody: 'nobody',
};

function particularsOf(detail: AuditEntry['detail']): string {
  return Object.entries(detail)
    .map(([name, value]) => `${name} ${String(value)}`)
    .join(', ');
}

const COLUMNS: readonly Column<AuditEntry>[] = [
  { name: 'When', cell: ({ at }) => <Moment at={at} /> },
  { name: 'Who', minor: true, cell: ({ who }) => <span class="whole">{WHO[who]}</span> },
  {
    name: 'What',
    cell: ({ action, who, target, detail }) => (
      <>
        <code>
          <Breakable text={action.replace(/\/api\/(admin|v1)\//, '')} />
        </code>
        {/* What a narrow screen has no columns for. */}
        <span class="narrow faint">{[WHO[who], target, particularsOf(detail)].filter(Boolean).join(' · ')}</span>
      </>
    ),
  },
  {
    name: 'To',
    minor: true,
    cell: ({ target }) => (target === null ? <span class="faint">–</span> : <span class="id">{target}</span>),
  },
  {
    name: 'Particulars',
    minor: true,
    cell: ({ detail }) => particularsOf(detail) || <span class="faint">–</span>,
  },
  { name: 'Answer', numeric: true, cell: ({ status }) => status ?? <span class="faint">not ended</span> },
];
