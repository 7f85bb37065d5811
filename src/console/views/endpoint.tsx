import type { Endpoint } from '../api/bodies.ts';
import { AttemptList } from '../parts/attempt-list.tsx';
import { Breakable } from '../parts/breakable.tsx';
import {
  changeEndpoint,
  deleteEndpoint,
  disableEndpoint,
  enableEndpoint,
  replaySince,
  rotateSecret,
  sendTest,
} from '../parts/endpoint-actions.ts';
import { EndpointForm } from '../parts/endpoint-form.tsx';
import { Backlog, EndpointState, LastFailure, latencyOf, successOf } from '../parts/endpoint-state.tsx';
import { Age, Moment } from '../parts/moment.tsx';
import { Card, Facts, Page } from '../parts/page.tsx';
import { Shown } from '../parts/shown.tsx';
import { useResource } from '../resource.ts';
import { go, Link } from '../router.tsx';
import { mayChange } from '../session.ts';

const EVERY_MS = 2000;

/** One endpoint of the application: its settings, its health and every attempt. */
export function EndpointView({ id }: { id: string }) {
  const read = useResource<Endpoint>(`/api/admin/endpoints/${id}`, [], EVERY_MS);
  const endpoint = read.data;
  const then = (action: (endpoint: Endpoint) => Promise<unknown>) => async () => {
    if (!endpoint) return;
    await action(endpoint);
    read.reload();
  };
  const remove = async () => {
    if (endpoint && (await deleteEndpoint(endpoint))) go('/application');
  };
  return (
    <Page
      title={`Endpoint ${id}`}
      lead={<Link to="/application">All endpoints</Link>}
      actions={
        endpoint &&
        mayChange() && (
          <>
            <button type="button" disabled={endpoint.disabledAt !== null} onClick={then(sendTest)}>
              Send test
            </button>
            <button type="button" onClick={then(rotateSecret)}>
              Rotate secret
            </button>
            {endpoint.disabledAt === null ? (
              <button type="button" onClick={then(disableEndpoint)}>
                Disable
              </button>
            ) : (
              <button type="button" onClick={then(enableEndpoint)}>
                Enable
              </button>
            )}
            <button type="button" class="danger" onClick={remove}>
              Delete
            </button>
          </>
        )
      }
    >
      <Shown resource={read}>
        {(shown) => (
          <>
            <Trouble endpoint={shown} />
            <div class="cards">
              <Card title="Status">
                <Facts
                  of={[
                    ['State', <EndpointState endpoint={shown} />],
                    ['Success, 24 h', successOf(shown)],
                    ['Latency p50, p95', latencyOf(shown)],
                    ['Last success', <Age at={shown.succeededAt} />],
                    ['Last failure', <LastFailure endpoint={shown} />],
                    ['Waiting', <Backlog endpoint={shown} />],
                  ]}
                />
              </Card>
              <Card title="What it is sent">
                <Facts
                  of={[
                    ['Address', <Breakable text={shown.url} />],
                    ['Description', shown.description || 'none'],
                    ['Types', shown.types?.join(', ') ?? 'every type'],
                    ['Athletes', shown.athleteIds === null ? 'every athlete' : <Athletes ids={shown.athleteIds} />],
                    ['Created', <Moment at={shown.createdAt} />],
                    shown.formerUntil !== null && [
                      'Former secret',
                      <>
                        signs too until <Moment at={shown.formerUntil} />
                      </>,
                    ],
                  ]}
                />
              </Card>
            </div>
            {mayChange() && (
              <>
                <details class="card wide">
                  <summary>Change what it is sent</summary>
                  <EndpointForm
                    endpoint={shown}
                    action="Save"
                    onSubmit={async (settings) => {
                      if (await changeEndpoint(shown, settings)) read.reload();
                      return false;
                    }}
                  />
                </details>
                <Card title="Replay" wide>
                  <ReplayForm endpoint={shown} />
                </Card>
              </>
            )}
            <AttemptList endpointId={id} />
          </>
        )}
      </Shown>
    </Page>
  );
}

/** What is wrong with an endpoint, and what to do about it. */
function Trouble({ endpoint: { disabledReason, failingSince, succeededAt } }: { endpoint: Endpoint }) {
  if (disabledReason === 'request')
    return <p class="notice waiting">This endpoint was disabled by request. Enable it to resume.</p>;
  if (disabledReason === null && failingSince === null) return null;
  return (
    <p class="notice bad">
      {disabledReason === null
        ? `Every delivery has failed ${succeededAt === null ? 'so far' : 'since its last success'}. Repair the application, then send a test.`
        : 'Nothing more is sent to it. Repair the application, then enable the endpoint: it receives what it missed.'}{' '}
      <a href="/admin/assets/runbook-delivery.md">delivery runbook</a>
    </p>
  );
}

function Athletes({ ids }: { ids: readonly string[] }) {
  return (
    <>
      {ids.map((id, index) => (
        <span key={id}>
          {index > 0 && ', '}
          <Link to={`/athletes/${id}`}>{id}</Link>
        </span>
      ))}
    </>
  );
}

function ReplayForm({ endpoint }: { endpoint: Endpoint }) {
  const replay = (event: Event) => {
    event.preventDefault();
    const since = String(new FormData(event.currentTarget as HTMLFormElement).get('since'));
    void replaySince(endpoint, new Date(since).toISOString());
  };
  return (
    <form class="filter" onSubmit={replay}>
      <label>
        <span>Everything since (local time)</span>
        <input type="datetime-local" name="since" required />
      </label>
      <button type="submit">Replay</button>
    </form>
  );
}
