import type { Finding, Subscription } from '../api/bodies.ts';
import { ask, withQuery } from '../api/client.ts';
import { countOf } from '../format.ts';
import { confirmed } from '../parts/confirm.tsx';
import { Icon } from '../parts/icon.tsx';
import { act } from '../parts/messages.tsx';
import { Age } from '../parts/moment.tsx';
import { Card, Page } from '../parts/page.tsx';
import { Empty, Shown } from '../parts/shown.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { useResource } from '../resource.ts';
import { mayChange } from '../session.ts';

const PATH = '/api/admin/webhooks';

/** The webhook subscription at the provider, and what the doctor finds. */
export function SubscriptionsView() {
  const listed = useResource<{ subscriptions: Subscription[] }>(PATH);
  const doctor = useResource<{ ok: boolean; findings: Finding[] }>(`${PATH}/doctor`);
  const changed = (done: unknown) => {
    if (done === undefined) return;
    listed.reload();
    doctor.reload();
  };
  const remove = async (subscription?: Subscription) => changed(await deleteSubscriptions(subscription));
  const count = listed.data?.subscriptions.length ?? 0;
  return (
    <Page
      title="Subscriptions"
      actions={
        mayChange() && (
          <>
            <button type="button" onClick={async () => changed(await createSubscription())}>
              Create
            </button>
            {count > 1 && (
              <button type="button" class="danger" onClick={() => remove()}>
                Delete all
              </button>
            )}
          </>
        )
      }
    >
      <Shown resource={listed}>
        {({ subscriptions }) =>
          subscriptions.length === 0 ? (
            <Empty>The provider has no subscription, so no webhook arrives. Create one.</Empty>
          ) : (
            <Table
              label="Subscriptions"
              rows={subscriptions}
              columns={mayChange() ? [...COLUMNS, deleteColumn(remove)] : COLUMNS}
            />
          )
        }
      </Shown>
      <Card
        title="The doctor’s findings"
        wide
        aside={
          <button type="button" class="small" onClick={doctor.reload}>
            Re-run checks
          </button>
        }
      >
        <Shown resource={doctor}>{({ ok, findings }) => <Findings ok={ok} findings={findings} />}</Shown>
      </Card>
    </Page>
  );
}

const COLUMNS: readonly Column<Subscription>[] = [
  { name: 'Id', cell: ({ id }) => <span class="id">{id}</span> },
  { name: 'Calls', cell: ({ callbackUrl }) => <span class="break">{callbackUrl}</span> },
  { name: 'Created', minor: true, cell: ({ createdAt }) => <Age at={createdAt} /> },
];

function deleteColumn(remove: (subscription: Subscription) => void): Column<Subscription> {
  return {
    name: 'Actions',
    cell: (subscription) => (
      <button
        type="button"
        class="small danger"
        aria-label={`Delete subscription ${subscription.id}`}
        onClick={() => remove(subscription)}
      >
        Delete
      </button>
    ),
  };
}

function Findings({ ok, findings }: { ok: boolean; findings: readonly Finding[] }) {
  return (
    <>
      <p class={`notice ${ok ? 'good' : 'bad'}`}>
        {ok
          ? 'Webhooks can arrive; nothing needs doing.'
          : `${countOf(findings.filter((finding) => !finding.ok).length, 'fault')} found.`}
      </p>
      <ul class="findings">
        {findings.map(({ check, ok: fine, detail, nextStep }) => (
          <li key={check} class={lookOf(fine, nextStep)}>
            <Icon name={lookOf(fine, nextStep)} />
            <div>
              <b>{check}</b>{' '}
              <span class="sr-only">
                {fine ? (nextStep === null ? 'is fine.' : 'deserves a look.') : 'is at fault.'}
              </span>
              <p>{detail}</p>
              {nextStep && <p class="next-step">{nextStep}</p>}
            </div>
          </li>
        ))}
      </ul>
    </>
  );
}

function lookOf(fine: boolean, nextStep: string | null): 'good' | 'waiting' | 'bad' {
  if (!fine) return 'bad';
  return nextStep === null ? 'good' : 'waiting';
}

function createSubscription(): Promise<unknown> {
  return act(
    () => ask<Subscription>('POST', PATH, { body: {} }),
    ({ id, callbackUrl }) => `Subscription ${id} calls ${callbackUrl}.`,
  );
}

async function deleteSubscriptions(subscription?: Subscription): Promise<unknown> {
  const sure = await confirmed({
    title: subscription ? `Delete subscription ${subscription.id}?` : 'Delete all subscriptions?',
    text: 'Until another one is created, no webhook arrives and only polling finds new activities.',
    action: 'Delete',
    destroys: true,
  });
  if (!sure) return undefined;
  return act(
    () => ask<{ deleted: number }>('DELETE', withQuery(PATH, { id: subscription?.id })),
    ({ deleted }) => `${countOf(deleted, 'subscription')} deleted.`,
  );
}
