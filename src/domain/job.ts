import type { Int64 } from './int64.ts';

/** Why a fetch was asked for, strongest first. */
export const REASONS = ['webhook', 'manual', 'polling'] as const;
export type Reason = (typeof REASONS)[number];

export const ASPECTS = ['create', 'update', 'delete'] as const;
export type Aspect = (typeof ASPECTS)[number];

export const STATUSES = ['pending', 'working', 'done', 'failed'] as const;
export type JobStatus = (typeof STATUSES)[number];

/** What came of a finished job: some outcomes make it `done`, the others `failed`. */
export const OUTCOMES = [
  'stored',
  'skipped',
  'deleted',
  'notFound',
  'unauthorized',
  'forbidden',
  'unknownAthlete',
  'exhausted',
] as const;
export type Outcome = (typeof OUTCOMES)[number];
export const DONE_OUTCOMES: readonly Outcome[] = ['stored', 'skipped', 'deleted'];
export const FAILED_OUTCOMES: readonly Outcome[] = OUTCOMES.filter((outcome) => !DONE_OUTCOMES.includes(outcome));

/** Retries after the first run; the failure after the last one is final. */
export const MAX_ATTEMPTS = 5;

/** One request for a fetch, as the queue takes it. */
export interface FetchRequest {
  activityId: Int64;
  athleteId: Int64;
  reason: Reason;
  /** Fetch again what is stored already. */
  force: boolean;
  /** What happened to the activity; without it: created. */
  aspect?: Aspect;
  /** When that happened; an older one than known is refused as stale. ISO 8601, or as PostgreSQL writes it. */
  eventTime?: string;
}

/** A webhook event of an activity, checked. */
export interface ActivityEvent {
  objectId: Int64;
  ownerId: Int64;
  aspect: Aspect;
  /** ISO 8601, whole seconds. */
  eventTime: string;
  subscriptionId: Int64;
  updates: Record<string, unknown>;
}
