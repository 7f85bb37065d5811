import type { Endpoint, EndpointSettings, SendAttempt } from '../api/bodies.ts';
import { ask } from '../api/client.ts';
import { countOf, formatMoment } from '../format.ts';
import { go } from '../router.tsx';
import { confirmed } from './confirm.tsx';
import { act } from './messages.tsx';
import { showSecret } from './secret.tsx';

const ENDPOINTS = '/api/v1/endpoints';

/** Creates an endpoint, shows its secret, and goes to its page. @returns whether it was created */
export async function createEndpoint(settings: EndpointSettings): Promise<boolean> {
  const created = await act(
    () => ask<{ id: string; secret: string }>('POST', ENDPOINTS, { body: settings }),
    ({ id }) => `Endpoint ${id} created. It receives changes from now on.`,
  );
  if (!created) return false;
  await showSecret({
    title: `The secret of endpoint ${created.id}`,
    text: 'Give it to the application, which verifies deliveries with it. It is shown only once.',
    value: created.secret,
  });
  go(`/endpoints/${created.id}`);
  return true;
}

export async function changeEndpoint({ id }: Endpoint, settings: EndpointSettings): Promise<boolean> {
  const changed = await act(
    () => ask('PATCH', `${ENDPOINTS}/${id}`, { body: settings }),
    () => `Endpoint ${id} changed.`,
  );
  return changed !== undefined;
}

export function sendTest({ id }: Endpoint): Promise<unknown> {
  return act(
    () => ask('POST', `${ENDPOINTS}/${id}/test`),
    () => 'Test queued; its attempt appears below.',
  );
}

/** Gives an endpoint a new secret after a confirmation, and shows it. */
export async function rotateSecret({ id, formerUntil }: Endpoint): Promise<void> {
  const sure = await confirmed({
    title: `Rotate the secret of endpoint ${id}?`,
    text:
      formerUntil === null
        ? 'The new secret is shown only once. For a day deliveries are signed with both, so that the application can switch.'
        : `The secret was rotated within the last day, and the former one would sign until ${formatMoment(formerUntil)}. If you rotate again, it stops now: only the current and the new secret sign.`,
    action: 'Rotate',
  });
  if (!sure) return;
  const rotated = await act(
    () => ask<{ secret: string; formerUntil: string }>('POST', `${ENDPOINTS}/${id}/rotate`),
    () => `Secret of endpoint ${id} rotated.`,
  );
  if (!rotated) return;
  await showSecret({
    title: `The new secret of endpoint ${id}`,
    text: `It is shown only once. The former one stays valid until ${formatMoment(rotated.formerUntil)}.`,
    value: rotated.secret,
  });
}

/** Stops sending to an endpoint, after a confirmation. */
export async function disableEndpoint(endpoint: Endpoint): Promise<void> {
  const sure = await confirmed({
    title: `Disable endpoint ${endpoint.id}?`,
    text: 'Nothing is sent to it until it is enabled again. It then receives the changes it missed, as far as they are still stored.',
    action: 'Disable',
  });
  if (sure) await setEnabled(endpoint, false);
}

export function enableEndpoint(endpoint: Endpoint): Promise<unknown> {
  return setEnabled(endpoint, true);
}

function setEnabled({ id }: Endpoint, enabled: boolean): Promise<unknown> {
  return act(
    () => ask('PATCH', `${ENDPOINTS}/${id}`, { body: { enabled } }),
    () => (enabled ? `Endpoint ${id} enabled; it now receives what it missed.` : `Endpoint ${id} disabled.`),
  );
}

/** Deletes an endpoint after a confirmation. @returns whether it was deleted */
export async function deleteEndpoint({ id, url }: Endpoint): Promise<boolean> {
  const sure = await confirmed({
    title: `Delete endpoint ${id}?`,
    text: `Nothing more is sent to ${url}. Its waiting deliveries and its log of attempts are deleted. This cannot be undone.`,
    action: 'Delete',
    destroys: true,
  });
  if (!sure) return false;
  const done = await act(
    () => ask('DELETE', `${ENDPOINTS}/${id}`),
    () => `Endpoint ${id} deleted.`,
  );
  return done !== undefined;
}

/** Sends everything since a time again, after a confirmation. */
export async function replaySince({ id }: Endpoint, since: string): Promise<void> {
  const sure = await confirmed({
    title: 'Replay?',
    text: `Every change since ${formatMoment(since)} that is still stored is sent to endpoint ${id} again. Each delivery keeps its webhook-id.`,
    action: 'Replay',
  });
  if (!sure) return;
  await act(
    () => ask<{ queued: number }>('POST', `${ENDPOINTS}/${id}/replay`, { body: { since } }),
    ({ queued }) => (queued === 0 ? 'Nothing has changed since then.' : `${countOf(queued, 'change')} queued.`),
  );
}

/** Sends what an attempt had sent again. */
export function resend(endpointId: string, { id }: SendAttempt): Promise<unknown> {
  return act(
    () => ask('POST', `${ENDPOINTS}/${endpointId}/attempts/${id}/resend`),
    () => 'Queued again, behind what waits for that athlete.',
  );
}
