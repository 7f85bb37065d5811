import type { Activity } from '../domain/activity.ts';
import type { Outcome } from '../domain/job.ts';

/** The effects of a run's end, besides its job. */
export type Effect =
  /** The activity is removed, and a tombstone keeps a slower fetch from restoring it. */
  | { kind: 'delete' }
  /** The activity is removed. */
  | { kind: 'remove' }
  /** The athlete is shown as needing to reconnect. */
  | { kind: 'reconnect'; detail: string };

/** When the athlete may be called again: after the cooldown since the last call, or at once if there was none. */
export type LastCall = { at: number } | 'none';

/** The end of a run, decided and not yet written. Times by performance.now(). */
export type Settlement = {
  /** Undefined: the hold that the claim set on the athlete continues. */
  lastCall?: LastCall;
} & (
  | { kind: 'stored'; outcome: 'stored' | 'refuted'; activity: Activity; detail: string }
  /** The job is done, or failed for good where there is an error. */
  | { kind: 'ended'; outcome: Outcome; error?: string; effect?: Effect; wantsAccess?: true }
  /** An attempt is counted. `delayMs` undefined: the usual backoff; `reclaimed`: the worker died or went stale. */
  | { kind: 'retry'; error: string; delayMs?: number; reclaimed?: true }
  /** Pending again without an attempt, as soon as budget and cooldown allow. `throttle`: a 429 stops every replica. */
  | { kind: 'release'; error: string; throttle?: { waitMs: number | undefined; why: string } }
);

/** The result of a run: the outcome of its job, or why the job is pending again. */
export type RunResult = Outcome | 'retry' | 'put_back';
