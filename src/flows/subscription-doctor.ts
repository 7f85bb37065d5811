import type { Int64 } from '../domain/int64.ts';
import type { Provider } from '../provider/client.ts';
import { ProviderError } from '../provider/errors.ts';
import type { SubscriptionAnswer } from '../provider/schemas.ts';
import { type Finding, fault, fine, warning } from './finding.ts';
import { shakeHands } from './subscription-handshake.ts';

/** What the database knows about deliveries. */
export interface DeliveryRecord {
  trusted: Int64[];
  lastReceivedAt: Date | undefined;
  athletes: number;
  /** Withdrawals of access that the provider has neither confirmed nor refuted. */
  unconfirmed: number;
}

export interface DoctorDependencies {
  provider: Pick<Provider, 'listSubscriptions'>;
  callbackUrl: string;
  /** A provider on this machine (a simulated one) reaches addresses that no other can. */
  providerOrigin: string;
  verifyToken: string | undefined;
  /** Whether deliveries must be signed (PROVIDER_WEBHOOK_SECRET). */
  signed: boolean;
  /** Undefined where the database cannot be reached from here. */
  readDeliveries: (() => Promise<DeliveryRecord>) | undefined;
  now: () => number;
}

const SILENCE_MS = 3 * 86_400_000;
const HOUR_MS = 3_600_000;

/**
 * Checks whether webhooks can arrive: our configuration, the subscription at the provider, the callback as
 * the provider sees it, and what has arrived. Changes nothing.
 */
export async function examineSubscription(deps: DoctorDependencies): Promise<{ ok: boolean; findings: Finding[] }> {
  const [listed, handshake, deliveries] = await Promise.all([
    deps.provider.listSubscriptions().catch(providerErrorOnly),
    shakeHands(deps.callbackUrl, deps.verifyToken),
    deps.readDeliveries?.(),
  ]);
  const findings = [
    checkVerifyToken(deps.verifyToken),
    checkPublicUrl(deps.callbackUrl, deps.providerOrigin),
    handshake,
    ...checkSubscriptions(listed, deps.callbackUrl),
    ...(deliveries ? checkDeliveries(deliveries, listed, deps.now()) : [databaseAway()]),
    checkSignature(deps.signed),
  ];
  return { ok: findings.every(({ ok }) => ok), findings };
}

function providerErrorOnly(error: unknown): ProviderError {
  if (error instanceof ProviderError) return error;
  throw error;
}

function checkVerifyToken(verifyToken: string | undefined): Finding {
  return verifyToken
    ? fine('verify token', 'PROVIDER_VERIFY_TOKEN is set.')
    : fault(
        'verify token',
        'PROVIDER_VERIFY_TOKEN is not set.',
        'Set PROVIDER_VERIFY_TOKEN to a random string, and restart.',
      );
}

const LOCAL = /^(localhost|127\.|\[::1\]|10\.|192\.168\.)/;

function checkPublicUrl(callbackUrl: string, providerOrigin: string): Finding {
  const check = 'public address';
  const { protocol, hostname } = new URL(callbackUrl);
  if (LOCAL.test(new URL(providerOrigin).hostname)) return fine(check, `The callback is ${callbackUrl}.`);
  if (LOCAL.test(hostname)) {
    return fault(
      check,
      `${callbackUrl} is reachable from this machine or network only.`,
      'Set NEXT_PUBLIC_BASE_URL to an address that the provider can reach: a public host, or a tunnel to this machine.',
    );
  }
  if (protocol === 'https:') return fine(check, `The callback is ${callbackUrl}.`);
  return fault(
    check,
    `${callbackUrl} is not encrypted.`,
    'Serve the public address over https, and set NEXT_PUBLIC_BASE_URL.',
  );
}

function checkSubscriptions(listed: SubscriptionAnswer[] | ProviderError, callbackUrl: string): Finding[] {
  const check = 'subscription';
  if (listed instanceof ProviderError) {
    const nextStep =
      listed.code === 'UNAUTHORIZED' || listed.code === 'FORBIDDEN'
        ? 'Check PROVIDER_CLIENT_ID and PROVIDER_CLIENT_SECRET.'
        : 'Try again; if the error persists, check PROVIDER_API_URL and the network route to it.';
    return [fault(check, `The provider did not list subscriptions: ${listed.message}.`, nextStep)];
  }
  const [first] = listed;
  if (!first) return [fault(check, 'The provider has no subscription.', 'Create it: npm run webhook:create.')];
  if (listed.length > 1) {
    const ids = listed.map(({ id }) => id).join(', ');
    return [
      fault(
        check,
        `The provider has ${listed.length} subscriptions: ${ids}.`,
        'Remove all and create one: npm run webhook:clean, then npm run webhook:create.',
      ),
    ];
  }
  const exists = fine(
    check,
    `The provider has one subscription, ${first.id}, since ${first.created_at ?? 'an unknown time'}.`,
  );
  if (first.callback_url === callbackUrl) return [exists, fine('callback', `It points to ${callbackUrl}.`)];
  return [
    exists,
    fault(
      'callback',
      `It points to ${first.callback_url ?? 'nowhere'}, not to ${callbackUrl}.`,
      'Correct NEXT_PUBLIC_BASE_URL, or recreate the subscription: npm run webhook:clean, then npm run webhook:create.',
    ),
  ];
}

function checkDeliveries(record: DeliveryRecord, listed: SubscriptionAnswer[] | ProviderError, now: number): Finding[] {
  return [checkTrust(record, listed), checkLastEvent(record, listed, now), checkDeauthorizations(record)];
}

function checkTrust({ trusted }: DeliveryRecord, listed: SubscriptionAnswer[] | ProviderError): Finding {
  const check = 'trusted subscriptions';
  const record = 'Record it: npm run webhook:list.';
  if (trusted.length === 0) {
    return fault(
      check,
      'None is known: events are answered with 503 until the provider has listed its subscription.',
      `Create one, or record it: npm run webhook:list.`,
    );
  }
  const present = listed instanceof ProviderError ? [] : listed.map(({ id }) => id);
  const refused = present.filter((id) => !trusted.includes(id));
  if (refused.length > 0) {
    return fault(
      check,
      `Events of subscription ${refused.join(', ')} are refused: only ${trusted.join(', ')} is known.`,
      record,
    );
  }
  return fine(check, `Events of subscription ${trusted.join(', ')} are accepted, others refused.`);
}

function checkDeauthorizations({ unconfirmed }: DeliveryRecord): Finding {
  const check = 'deauthorizations';
  if (unconfirmed === 0) return fine(check, 'None is waiting for confirmation.');
  return fault(
    check,
    `${unconfirmed} cannot be confirmed: the provider neither accepts nor refuses the athletes’ tokens.`,
    'They are retried hourly. Check PROVIDER_CLIENT_ID, PROVIDER_CLIENT_SECRET and PROVIDER_API_URL, and that the provider is up.',
  );
}

function checkLastEvent(
  { lastReceivedAt, athletes }: DeliveryRecord,
  listed: SubscriptionAnswer[] | ProviderError,
  now: number,
): Finding {
  const check = 'last event';
  const nextStep =
    'Change an activity’s title at the provider, and watch the ledger: GET /api/admin/webhook-events. If nothing comes, recreate the subscription.';
  if (!lastReceivedAt) {
    if (athletes === 0) return fine(check, 'None has arrived yet; no athlete is connected.');
    const detail = `None has arrived yet, with ${athletes} connected ${athletes === 1 ? 'athlete' : 'athletes'}`;
    return isNew(listed, now)
      ? warning(check, `${detail}; the subscription is less than an hour old.`, nextStep)
      : fault(check, `${detail}.`, nextStep);
  }
  const ageMs = now - lastReceivedAt.getTime();
  const detail = `The last one arrived ${ageOf(ageMs)} ago, at ${lastReceivedAt.toISOString()}.`;
  return ageMs > SILENCE_MS && athletes > 0 ? fault(check, detail, nextStep) : fine(check, detail);
}

// The athletes may have had no reason to record or rename an activity yet.
function isNew(listed: SubscriptionAnswer[] | ProviderError, now: number): boolean {
  const createdAt = listed instanceof ProviderError ? undefined : listed[0]?.created_at;
  return typeof createdAt === 'string' && now - Date.parse(createdAt) < HOUR_MS;
}

function ageOf(ms: number): string {
  const minutes = Math.max(0, Math.round(ms / 60_000));
  if (minutes === 0) return 'less than a minute';
  if (minutes < 120) return `${minutes} min`;
  return minutes < 2880 ? `${Math.round(minutes / 60)} h` : `${Math.round(minutes / 1440)} days`;
}

function databaseAway(): Finding {
  return fault(
    'deliveries',
    'The database cannot be reached from here, so trusted subscriptions and the last event are not known.',
    'Ask the running service: set ADMIN_TOKEN and --url, or NEXT_PUBLIC_BASE_URL.',
  );
}

function checkSignature(signed: boolean): Finding {
  return fine(
    'signature',
    signed
      ? 'Deliveries must carry a valid signature (PROVIDER_WEBHOOK_SECRET is set).'
      : 'Deliveries need no signature (PROVIDER_WEBHOOK_SECRET is not set); the subscription’s id is checked.',
  );
}
