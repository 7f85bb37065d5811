import type { ToldChange } from '../api/bodies.ts';
import { countOf } from '../format.ts';
import { useResource } from '../resource.ts';
import { Link } from '../router.tsx';
import { Badge } from './badge.tsx';
import { Breakable } from './breakable.tsx';
import { Age, Moment } from './moment.tsx';
import { Card } from './page.tsx';
import { Empty, Shown } from './shown.tsx';

const EVERY_MS = 5000;

/** The changes of an activity, and the endpoints that each was sent to. */
export function WhoWasTold({ activityId }: { activityId: string }) {
  const told = useResource<{ changes: ToldChange[] }>(
    `/api/admin/activities/${activityId}/changes`,
    ['activity'],
    EVERY_MS,
  );
  return (
    <Card title="Who was told" wide>
      <Shown resource={told}>
        {({ changes }) =>
          changes.length === 0 ? (
            <Empty>No change to this activity is stored any more.</Empty>
          ) : (
            <ul class="told">
              {changes.map((change) => (
                <li key={change.id}>
                  <div class="sync-head">
                    <code>{change.type}</code> <Moment at={change.at} />
                  </div>
                  <Deliveries of={change.deliveries} />
                </li>
              ))}
            </ul>
          )
        }
      </Shown>
      <p class="faint">Applications that read the feed or the database are not recorded.</p>
    </Card>
  );
}

function Deliveries({ of }: { of: ToldChange['deliveries'] }) {
  if (of.length === 0) return <p class="faint">Sent to no endpoint.</p>;
  return (
    <ul>
      {of.map(({ id, endpointId, url, state, attempts, queuedAt, settledAt }) => (
        <li key={id}>
          <Badge state={state} />{' '}
          <Link to={`/endpoints/${endpointId}`}>
            <Breakable text={url} />
          </Link>{' '}
          <span class="faint">
            {state === 'waiting' ? 'queued ' : ''}
            <Age at={settledAt ?? queuedAt} />, {countOf(attempts, 'attempt')}
          </span>
        </li>
      ))}
    </ul>
  );
}
