import type { Int64 } from './int64.ts';
import type { Aspect, FetchRequest, Reason } from './job.ts';

/** The request that an activity already has, and the state of its job. */
export interface KnownRequest {
  athleteId: Int64;
  reason: Reason;
  force: boolean;
  aspect: Aspect;
  signed: boolean;
  eventTime: Date | null;
  state: 'waiting' | 'running' | 'finished';
  /** The activity is stored as that athlete's. */
  stored: boolean;
}

/** What the known request becomes; `newJob`: its pg-boss job is replaced by a new one. */
export interface ChangedRequest {
  athleteId: Int64;
  reason: Reason;
  force: boolean;
  aspect: Aspect;
  signed: boolean;
  eventTime: Date | null;
  reopened: boolean;
  newJob: boolean;
}

/**
 * How a request joins the one that an activity already has:
 * - waiting: no second fetch; the stronger reason, force once set, the newest event
 * - running: one more run follows, for an event or a forced request
 * - finished: re-opened
 * - of another athlete: re-opened for the athlete of the new request, unless the activity is stored as the other's
 * - an event older than the newest one changes nothing (`stale`)
 * @param request its eventTime already capped at its arrival
 */
export function coalesce(
  known: KnownRequest,
  request: FetchRequest,
): { result: 'accepted' | 'joined' | 'stale'; change?: ChangedRequest } {
  const { eventTime } = request;
  if (eventTime && isOutOfDate(known, eventTime, request.aspect)) return { result: 'stale' };
  const { state } = known;
  // The first request may have named the wrong athlete; what is stored came with the athlete's own token.
  const moves =
    request.athleteId !== known.athleteId &&
    !known.stored &&
    (state === 'finished' || known.aspect !== 'delete' || eventTime !== undefined);
  if (state === 'running' && !eventTime && !request.force && !moves) return { result: 'joined' };
  const finished = state === 'finished';
  const isUnconfirmed = request.aspect === 'delete' && !request.signed;
  return {
    result: state === 'waiting' && !eventTime && !moves ? 'joined' : 'accepted',
    change: {
      athleteId: moves ? request.athleteId : known.athleteId,
      reason: finished ? request.reason : strongerReason(known.reason, request.reason),
      force: request.force || (!finished && (known.force || state === 'running')),
      ...(eventTime || finished
        ? { aspect: request.aspect ?? 'create', signed: request.signed ?? false }
        : { aspect: known.aspect, signed: known.signed }),
      // An unconfirmed deletion makes no other event out of date.
      eventTime: eventTime && !isUnconfirmed ? eventTime : known.eventTime,
      reopened: finished,
      newJob: finished || moves,
    },
  };
}

function isOutOfDate(known: KnownRequest, eventTime: Date, aspect: Aspect | undefined): boolean {
  if (!known.eventTime) return false;
  if (eventTime < known.eventTime) return true;
  return eventTime.getTime() === known.eventTime.getTime() && known.aspect === 'delete' && aspect !== 'delete';
}

function strongerReason(a: Reason, b: Reason): Reason {
  if (a === 'webhook' || b === 'webhook') return 'webhook';
  return a === 'manual' || b === 'manual' ? 'manual' : 'polling';
}
