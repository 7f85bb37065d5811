import type { PgBoss } from 'pg-boss';
import { Webhook } from 'standardwebhooks';
import type { Database } from '../infra/database.ts';
import type { OutboundAnswer, OutboundClient } from '../infra/outbound-client.ts';
import { type SecretBox, SecretBoxError } from '../infra/secret-box.ts';
import { completeDelivery, type DeliveryRun } from '../queue/delivery-queue.ts';
import { findApplicationActivity } from '../store/application-reads.ts';
import {
  type AttemptResult,
  findHead,
  findNextHead,
  findOpenDelivery,
  type OpenDelivery,
  recordAttempt,
} from '../store/delivery-log.ts';
import { lockEndpoint, noteFailure, noteSuccess } from '../store/endpoints.ts';
import { disableEndpoint, startLines } from './delivery-lines.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** The waits between the ten attempts at a delivery, in milliseconds: over three days. */
export const RETRY_DELAYS_MS = [
  5000,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  14 * HOUR_MS,
  20 * HOUR_MS,
  24 * HOUR_MS,
] as const;
const FAILING_TOO_LONG_MS = 5 * 24 * HOUR_MS;
const GONE = 410;
const WRONG_KEY_DELAY_MS = MINUTE_MS;

export interface SendDependencies {
  database: Database;
  boss: PgBoss;
  client: OutboundClient;
  secretBox: SecretBox;
  now: () => number;
}

/** The result of an attempt; undefined when there was nothing left to send. */
export type SentDelivery = { delivery: OpenDelivery; answer: OutboundAnswer; result: AttemptResult } | undefined;

/**
 * Makes one attempt at a delivery. The activity is read now, so that nothing leaves of one that is gone. The attempt,
 * the delivery's state and the job of whatever is next in line commit together.
 * @throws ClaimLostError when the claim was lost: the attempt is made again, with the same webhook-id; SecretBoxError
 * when no configured key decrypts the secret: this is not an attempt, and the delivery is due again in a minute
 */
export async function sendDelivery(
  deps: SendDependencies,
  run: DeliveryRun,
  signal: AbortSignal,
): Promise<SentDelivery> {
  const delivery = await findOpenDelivery(deps.database, run.deliveryId, run.bossJobId);
  if (!delivery || delivery.isDisabled) {
    await completeDelivery(deps.boss, deps.database, run);
    return undefined;
  }
  let secrets: string[];
  try {
    secrets = delivery.sealedSecrets.map((sealed) => deps.secretBox.open(sealed));
  } catch (error) {
    if (error instanceof SecretBoxError) await postpone(deps, run, delivery);
    throw error;
  }
  const body = JSON.stringify(await bodyOf(deps.database, delivery));
  const headers = headersOf(delivery.changeId, new Date(deps.now()), body, secrets);
  const answer = await deps.client.post(delivery.url, body, headers, signal);
  if (signal.aborted && answer.status === undefined) throw signal.reason; // an answer that came counts
  return { delivery, answer, result: await settle(deps, run, delivery, answer) };
}

async function postpone({ database, boss }: SendDependencies, run: DeliveryRun, delivery: OpenDelivery): Promise<void> {
  await database.transaction(async (tx) => {
    await lockEndpoint(tx, delivery.endpointId);
    await completeDelivery(boss, tx, run);
    const head = await findHead(tx, delivery.id);
    if (head) await startLines(boss, tx, [head], WRONG_KEY_DELAY_MS);
  });
}

async function settle(
  deps: SendDependencies,
  run: DeliveryRun,
  delivery: OpenDelivery,
  answer: OutboundAnswer,
): Promise<AttemptResult> {
  const { boss } = deps;
  const { status } = answer;
  const isDelivered = status !== undefined && status >= 200 && status < 300;
  const delayMs = RETRY_DELAYS_MS[delivery.attempts];
  const result = isDelivered ? 'delivered' : delayMs === undefined ? 'exhausted' : 'retry';
  await deps.database.transaction(async (tx) => {
    const exists = await lockEndpoint(tx, delivery.endpointId);
    // Deleted with its endpoint or its athlete; the line continues.
    const isKept = exists && (await recordAttempt(tx, delivery, { ...answer, result }));
    await completeDelivery(boss, tx, run);
    if (!isKept) return;
    if (isDelivered) await noteSuccess(tx, delivery.endpointId);
    else {
      const failingMs = await noteFailure(tx, delivery.endpointId);
      if (status === GONE) return disableEndpoint(boss, tx, delivery.endpointId, 'gone');
      if (failingMs >= FAILING_TOO_LONG_MS) return disableEndpoint(boss, tx, delivery.endpointId, 'failing');
    }
    const next = result === 'retry' ? await findHead(tx, delivery.id) : await findNextHead(tx, delivery.id);
    if (next) await startLines(boss, tx, [next], result === 'retry' ? delayMs : 0);
  });
  return result;
}

/** What is signed and sent, as the Standard Webhooks specification wants it. */
async function bodyOf(database: Database, delivery: OpenDelivery) {
  const { changeId, cursor, type, at, athleteId, externalId, activityId } = delivery;
  const activity = activityId === null ? undefined : await findApplicationActivity(database, activityId);
  const data = { cursor, id: changeId, type, at, athleteId, externalId, activityId, activity: activity ?? null };
  return { type, timestamp: at, data };
}

function headersOf(id: string, at: Date, body: string, secrets: readonly string[]): Record<string, string> {
  return {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
    'webhook-signature': secrets.map((secret) => new Webhook(secret).sign(id, at, body)).join(' '),
  };
}
