import { toStorableText } from '../domain/storable-text.ts';
import { redactSecrets } from '../infra/logger.ts';

/** What went wrong in a call to the provider, grouped by the remedy. */
export type ProviderErrorCode =
  | 'NETWORK' // no answer: retry
  | 'TIMEOUT' // no answer in time: retry
  | 'UNREADABLE' // an answer that is not what the API promises: retry
  | 'UNUSABLE' // a complete answer that a retry would not change (another activity, an impossible date): permanent
  | 'SERVER' // 5xx: retry
  | 'THROTTLED' // 429: everyone waits
  | 'UNAUTHORIZED' // 401: refresh the token once
  | 'FORBIDDEN' // 403: permanent
  | 'NOT_FOUND' // 404: permanent
  | 'OTHER_ATHLETE' // the activity is not that athlete's: permanent
  | 'REFUSED'; // any other 4xx: permanent for this request

/**
 * A call to the provider that did not succeed. The message contains no secret and no query string, and there is no
 * cause: the HTTP client's own error contains the request with its headers.
 */
export class ProviderError extends Error {
  override name = 'ProviderError';
  readonly code: ProviderErrorCode;
  readonly status: number | undefined;
  /** The provider's own words, redacted and at most 200 characters long; no code depends on their form. */
  readonly providerMessage: string | undefined;
  /** For THROTTLED: milliseconds until the provider allows the next call, if it said so. */
  readonly retryAfterMs: number | undefined;

  constructor(
    code: ProviderErrorCode,
    message: string,
    details: {
      status?: number | undefined;
      providerMessage?: string | undefined;
      retryAfterMs?: number | undefined;
    } = {},
  ) {
    super(message);
    this.code = code;
    this.status = details.status;
    this.providerMessage = details.providerMessage;
    this.retryAfterMs = details.retryAfterMs;
  }
}

const BY_STATUS: Record<number, ProviderErrorCode> = {
  401: 'UNAUTHORIZED',
  403: 'FORBIDDEN',
  404: 'NOT_FOUND',
  429: 'THROTTLED',
};

/**
 * The error of an answer that is not 2xx.
 * @param answer.date its Date header: what a Retry-After date is counted from, by the same clock
 * @param secrets what the call carried: a provider, proxy or firewall may echo it
 */
export function errorOfAnswer(
  what: string,
  answer: { status: number; body: string; retryAfter: string | undefined; date: string | undefined; now: number },
  secrets: readonly string[],
): ProviderError {
  const { status } = answer;
  const code = BY_STATUS[status] ?? (status >= 500 ? 'SERVER' : 'REFUSED');
  const providerMessage = messageOf(answer.body, secrets);
  return new ProviderError(
    code,
    `${what}: the provider answered HTTP ${status}${providerMessage ? ` (${providerMessage})` : ''}`,
    {
      status,
      providerMessage,
      retryAfterMs: code === 'THROTTLED' ? retryAfterMsOf(answer) : undefined,
    },
  );
}

/** Reads Retry-After: seconds, or an HTTP date. A duration, not a time: only the provider's clock matters. */
function retryAfterMsOf(answer: {
  retryAfter: string | undefined;
  date: string | undefined;
  now: number;
}): number | undefined {
  const header = answer.retryAfter?.trim() ?? '';
  if (/^\d{1,9}$/.test(header)) return Number(header) * 1000;
  const at = Date.parse(header);
  const sentAt = Date.parse(answer.date ?? '');
  return Number.isNaN(at) ? undefined : Math.max(0, at - (Number.isNaN(sentAt) ? answer.now : sentAt));
}

const MAX_WORDS = 200;

// Error bodies come in several forms, and sometimes empty.
function messageOf(body: string, secrets: readonly string[]): string | undefined {
  try {
    const parsed = (JSON.parse(body) ?? {}) as { message?: unknown; errors?: unknown };
    const first = Array.isArray(parsed.errors) ? (parsed.errors[0] as Record<string, unknown> | undefined) : undefined;
    const detail = first
      ? [first.resource, first.field, first.code].filter((part) => typeof part === 'string' && part !== '').join(' ')
      : undefined;
    const words = [parsed.message, detail].filter((part) => typeof part === 'string' && part !== '').join(': ');
    // Redacted before it is cut: half a secret would not be recognised. It is stored with the job.
    return toStorableText(redactWords(words, secrets).slice(0, MAX_WORDS)) || undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

const REDACTED = '[redacted]';
// As in a header, a query, a form, JSON or prose: "client_secret=…", '"code": "…"', "Authorization: Bearer …".
const NAMED =
  /((?:(?:token|secret|password|authorization|cookie|api[-_]?key)|\bcode)(?:\\?["'])?\s*(?:[:=]|%3[ad])\s*(?:\\?["'])?(?:(?:bearer|basic)\s+)?|\b(?:bearer|basic)\s+)(?!\[redacted\])[^\s"'&,;<>\\]+/gi;
// An encoding or a part of a secret whose value is not known. Words, addresses and ids have no such run.
const RUN = /[\w+=-]{24,}/g;

/** Removes secrets from the provider's words: by value, by name, and whatever looks like one. */
function redactWords(words: string, secrets: readonly string[]): string {
  return redactSecrets(words, secrets)
    .replace(NAMED, `$1${REDACTED}`)
    .replace(RUN, (run) => (/\d/.test(run) && /[a-z]/i.test(run) ? REDACTED : run));
}
