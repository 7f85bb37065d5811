import type { Athlete, Sync } from '../api/bodies.ts';
import { ask } from '../api/client.ts';
import { countOf } from '../format.ts';
import { Badge } from '../parts/badge.tsx';
import { confirmed } from '../parts/confirm.tsx';
import { act } from '../parts/messages.tsx';
import { Age, Moment } from '../parts/moment.tsx';
import { Card, Facts, Page } from '../parts/page.tsx';
import { Shown } from '../parts/shown.tsx';
import { SyncForm } from '../parts/sync-form.tsx';
import { SyncList } from '../parts/sync-list.tsx';
import { useResource } from '../resource.ts';
import { go, Link } from '../router.tsx';
import { mayChange } from '../session.ts';

/** One athlete: state, syncs, and disconnecting. */
export function AthleteView({ id }: { id: string }) {
  const athlete = useResource<Athlete>(`/api/admin/athletes/${id}`, ['athlete', 'jobs']);
  const syncs = useResource<{ syncs: Sync[] }>('/api/admin/syncs?limit=100', ['sync']);
  const name = athlete.data?.name ?? undefined;
  const erase = async () => {
    if (await eraseAthlete(id)) go('/athletes');
  };
  return (
    <Page
      title={name ?? `Athlete ${id}`}
      lead={<Link to="/athletes">All athletes</Link>}
      actions={
        athlete.data &&
        mayChange() && (
          <button type="button" class="danger" onClick={erase}>
            Disconnect and erase
          </button>
        )
      }
    >
      <Shown resource={athlete}>
        {(shown) => (
          <>
            {shown.state !== 'healthy' && <StateNotice athlete={shown} />}
            <div class="cards">
              <Card title="How they stand">
                <Facts
                  of={[
                    ['State', <Badge state={shown.state} />],
                    ['Id', <span class="id">{shown.id}</span>],
                    ['External id', shown.externalId ?? 'none'],
                    ['Granted', shown.scope],
                    ['Connected', <Moment at={shown.connectedAt} />],
                    ['Last activity', <Age at={shown.lastActivityAt} />],
                    [
                      'Waiting',
                      <Link to={`/jobs?status=pending&athleteId=${id}`}>{countOf(shown.waitingJobs, 'job')}</Link>,
                    ],
                    [
                      'Cooldown',
                      shown.cooldownUntil === null ? (
                        'none'
                      ) : (
                        <>
                          ends <Age at={shown.cooldownUntil} />
                        </>
                      ),
                    ],
                  ]}
                />
                <p class="links">
                  <Link to={`/jobs?athleteId=${id}`}>Jobs</Link>{' '}
                  <Link to={`/activities?athleteId=${id}`}>Activities</Link>{' '}
                  <Link to={`/deliveries?athleteId=${id}`}>Deliveries</Link>
                </p>
              </Card>
              <Card title="Sync their whole list">
                {mayChange() && <SyncForm athleteId={id} onBegun={syncs.reload} />}
                <Shown resource={syncs}>
                  {(page) => (
                    <SyncList
                      syncs={page.syncs.filter(({ athleteId }) => athleteId === null || athleteId === id)}
                      onChange={syncs.reload}
                    />
                  )}
                </Shown>
              </Card>
            </div>
          </>
        )}
      </Shown>
    </Page>
  );
}

function StateNotice({ athlete: { state, stateDetail } }: { athlete: Athlete }) {
  return (
    <p class="notice bad">
      {state === 'reconnect'
        ? 'The provider refuses their token: they must reconnect.'
        : 'Insufficient scope to read activities: they must reconnect and leave the box ticked.'}{' '}
      {stateDetail} <a href="/api/provider/connect">Reconnect</a>
    </p>
  );
}

async function eraseAthlete(id: string): Promise<boolean> {
  const sure = await confirmed({
    title: 'Disconnect and erase?',
    text: 'The provider is notified, and their tokens, activities, pictures, jobs and deliveries are erased. This cannot be undone.',
    action: 'Erase',
    typed: id,
    destroys: true,
  });
  if (!sure) return false;
  const done = await act(
    () => ask<{ providerTold: boolean }>('DELETE', `/api/admin/athletes/${id}`),
    ({ providerTold }) =>
      providerTold ? `Athlete ${id} erased.` : `Athlete ${id} erased; the provider could not be notified.`,
  );
  return done !== undefined;
}
