import type { Endpoint } from '../api/bodies.ts';
import { withQuery } from '../api/client.ts';
import { Breakable } from '../parts/breakable.tsx';
import { createEndpoint } from '../parts/endpoint-actions.ts';
import { EndpointForm } from '../parts/endpoint-form.tsx';
import { Backlog, EndpointState, LastFailure, latencyOf, successOf } from '../parts/endpoint-state.tsx';
import { Page } from '../parts/page.tsx';
import { Pages } from '../parts/pages.tsx';
import { Empty, Shown } from '../parts/shown.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { TokenList } from '../parts/token-list.tsx';
import { useResource } from '../resource.ts';
import { Link, place } from '../router.tsx';
import { mayChange } from '../session.ts';

const EVERY_MS = 5000;

/** The application that uses the service: its endpoints and its tokens. */
export function ApplicationView() {
  const read = useResource<{ endpoints: Endpoint[]; nextCursor: string | null }>(
    withQuery('/api/admin/endpoints', { cursor: place.value.query.get('cursor') ?? undefined, limit: '50' }),
    [],
    EVERY_MS,
  );
  return (
    <Page title="Application" lead="Where changes are sent, and the tokens of those that use /api/v1.">
      <section class="block">
        <h2>Endpoints</h2>
        <Shown resource={read}>
          {({ endpoints, nextCursor }) => (
            <>
              {endpoints.length === 0 ? (
                <Empty>There are no endpoints: changes are not sent, but can be read from the feed.</Empty>
              ) : (
                <Table label="Endpoints" rows={endpoints} columns={COLUMNS} />
              )}
              <Pages nextCursor={nextCursor} words={['First', 'Next']} />
            </>
          )}
        </Shown>
        {mayChange() && (
          <details class="card wide">
            <summary>Create an endpoint</summary>
            <EndpointForm action="Create endpoint" onSubmit={createEndpoint} />
          </details>
        )}
      </section>
      <TokenList />
    </Page>
  );
}

const COLUMNS: readonly Column<Endpoint>[] = [
  {
    name: 'Endpoint',
    cell: (endpoint) => (
      <>
        <Link class="address break" to={`/endpoints/${endpoint.id}`}>
          <Breakable text={endpoint.url} />
        </Link>
        {endpoint.description && <span class="below faint break">{endpoint.description}</span>}
        <span class="narrow faint">
          Success: {successOf(endpoint)}. Last failure: <LastFailure endpoint={endpoint} />
        </span>
      </>
    ),
  },
  { name: 'State', cell: (endpoint) => <EndpointState endpoint={endpoint} /> },
  {
    name: 'Success, 24 h',
    minor: true,
    numeric: true,
    cell: (endpoint) => <span class="whole">{successOf(endpoint)}</span>,
  },
  {
    name: 'p50, p95',
    minor: true,
    numeric: true,
    cell: (endpoint) => <span class="whole">{latencyOf(endpoint)}</span>,
  },
  { name: 'Last failure', minor: true, cell: (endpoint) => <LastFailure endpoint={endpoint} /> },
  { name: 'Waiting', cell: (endpoint) => <Backlog endpoint={endpoint} /> },
];
