import { type Answer, answerError, answerJson, htmlType, jsonType, rateLimitExceeded, unauthorized } from './answer.ts';
import type { CallRecord } from './call-log.ts';
import { type EntityId, toEntityId } from './entity-id.ts';
import { pause } from './settings.ts';

export type FaultKind =
  /** Answers as usual, after `latencyMs`. */
  | 'latency'
  /** Works out the answer, or takes that of `status`, and holds it back until the handle's `release()`. */
  | 'hold'
  /** Answers with `status` and `body`. */
  | 'status'
  /** 429 with a Retry-After of `retryAfter`. */
  | 'retryAfter429'
  /** 429 whose `errors` is a string. */
  | 'stringErrors429'
  /** Closes the connection without an answer. */
  | 'cut'
  /** Carries out the request, and closes the connection half-way through the answer. */
  | 'cutBody'
  /** 200 with a body that is not JSON. */
  | 'garbage'
  /** 200 with the first half of the JSON, complete as far as HTTP can tell. */
  | 'truncated'
  /** 200 with an HTML page. */
  | 'wrongType'
  /** Never answers. */
  | 'hang';

/** Which calls a fault applies to; omitted fields match all. */
export interface FaultMatch {
  path?: RegExp;
  method?: string;
  athleteId?: EntityId;
  activityId?: EntityId;
}

export interface Fault {
  match?: FaultMatch;
  kind: FaultKind;
  /** For `status` and `hold`: 401, 403, 404, 500 and so on. */
  status?: number;
  /** Body instead of the usual one of that status; '' for none. */
  body?: string;
  /** Retry-After: seconds, a moment as an HTTP date, or 'date' for the window rollover. */
  retryAfter?: number | Date | 'date';
  /** Wait before the fault, for any kind. */
  latencyMs?: number;
  /** How many calls it applies to before it is over; without it, all. */
  times?: number;
  /** Carry out the request before failing (a token is rotated, but its answer is lost). */
  afterEffect?: boolean;
}

export interface FaultHandle {
  /** Calls it has applied to so far. */
  readonly hits: number;
  /** Resolves once a `hold` keeps its first answer back. */
  readonly held: Promise<void>;
  remove(): void;
  /** Releases the answers a `hold` keeps back, and those to come. */
  release(): void;
}

/** A fault in force. */
interface ActiveFault extends FaultHandle {
  hits: number;
  readonly fault: Fault;
  readonly hold: () => void;
  readonly released: Promise<void>;
}

/** The faults in force, oldest first; the first that matches a call applies. */
export class FaultList {
  #active: ActiveFault[] = [];

  add(fault: Fault): FaultHandle {
    const { promise: held, resolve: hold } = Promise.withResolvers<void>();
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const remove = () => {
      this.#active = this.#active.filter((other) => other !== active);
      release();
    };
    const active: ActiveFault = { fault, hits: 0, held, hold, released, release, remove };
    this.#active.push(active);
    return active;
  }

  clear(): void {
    for (const active of this.#active) active.remove();
  }

  /** The fault that applies to this call, counted as a hit. */
  pick(call: CallRecord): ActiveFault | undefined {
    const active = this.#active.find(({ fault, hits }) => hits < (fault.times ?? hits + 1) && fits(fault.match, call));
    if (active !== undefined) active.hits++;
    return active;
  }
}

function fits({ path, method, athleteId, activityId }: FaultMatch = {}, call: CallRecord): boolean {
  if (path !== undefined && call.path.search(path) < 0) return false;
  if (method !== undefined && method.toUpperCase() !== call.method) return false;
  if (athleteId !== undefined && toEntityId(athleteId) !== call.athleteId) return false;
  return activityId === undefined || toEntityId(activityId) === call.activityId;
}

/** Answers a call as the fault says; `usual` carries out the request. `windowEndMs` is when the rate window ends. */
export async function answerWithFault(
  active: ActiveFault,
  usual: () => Answer | Promise<Answer>,
  closing: AbortSignal,
  windowEndMs: number,
): Promise<Answer> {
  const { fault } = active;
  if (fault.latencyMs !== undefined) await pause(fault.latencyMs, closing);
  switch (fault.kind) {
    case 'latency':
      return usual();
    case 'hold': {
      const answer = fault.status === undefined ? await usual() : brokenAnswer(fault, windowEndMs);
      active.hold();
      await active.released;
      return answer;
    }
    case 'cutBody':
      return { ...(await usual()), ending: 'cutBody' };
    case 'truncated': {
      const answer = await usual();
      return { ...answer, body: answer.body.slice(0, Math.ceil(answer.body.length / 2)) };
    }
    default:
      if (fault.afterEffect === true) await usual();
      return brokenAnswer(fault, windowEndMs);
  }
}

function brokenAnswer(fault: Fault, windowEndMs: number): Answer {
  switch (fault.kind) {
    case 'cut':
    case 'hang':
      return { status: 0, body: '', ending: fault.kind };
    case 'garbage':
      return { status: 200, body: fault.body ?? '\u0000\ufffd not json {{{', type: jsonType };
    case 'wrongType':
      return { status: 200, body: fault.body ?? '<!doctype html><title>Maintenance</title>', type: htmlType };
    case 'stringErrors429':
      return withRetryAfter(answerJson(429, stringErrorsBody), fault.retryAfter, windowEndMs);
    case 'retryAfter429':
      return withRetryAfter(bodyOr(rateLimitExceeded, fault), fault.retryAfter ?? 1, windowEndMs);
    default:
      return withRetryAfter(bodyOr(usualError(fault.status ?? 500), fault), fault.retryAfter, windowEndMs);
  }
}

const stringErrorsBody = '{"errors":"Rate Limit Exceeded","status":429,"message":"Too Many Requests"}';

function usualError(status: number): Answer {
  switch (status) {
    case 401:
      return unauthorized;
    case 403:
      return answerError(403, 'Forbidden', 'Application', 'Status', 'Inactive');
    case 404:
      return answerError(404, 'Record Not Found', 'Activity', 'id', 'not found');
    case 429:
      return rateLimitExceeded;
    default:
      return answerJson(
        status,
        JSON.stringify({ message: status >= 500 ? 'Internal Error' : 'Bad Request', errors: [] }),
      );
  }
}

function bodyOr(answer: Answer, fault: Fault): Answer {
  return fault.body === undefined ? answer : { ...answer, body: fault.body };
}

function withRetryAfter(answer: Answer, retryAfter: Fault['retryAfter'], windowEndMs: number): Answer {
  if (retryAfter === undefined) return answer;
  const date = retryAfter === 'date' ? new Date(windowEndMs) : retryAfter;
  const value = date instanceof Date ? date.toUTCString() : String(date);
  return { ...answer, headers: { ...answer.headers, 'Retry-After': value } };
}
