import type { Int64 } from './int64.ts';

/** Why a fetch was requested, strongest first. */
export const REASONS = ['webhook', 'manual', 'polling'] as const;
export type Reason = (typeof REASONS)[number];

export const ASPECTS = ['create', 'update', 'delete'] as const;
export type Aspect = (typeof ASPECTS)[number];

export const STATUSES = ['pending', 'working', 'done', 'failed'] as const;
export type JobStatus = (typeof STATUSES)[number];

/**
 * The outcome of a finished job: some make it `done`, the others `failed`. `refuted`: a deletion that the provider did
 * not confirm; `unusable`: an answer that a retry would not improve.
 */
export const OUTCOMES = [
  'stored',
  'skipped',
  'deleted',
  'notFound',
  'unauthorized',
  'forbidden',
  'unknownAthlete',
  'exhausted',
  'refuted',
  'unusable',
] as const;
export type Outcome = (typeof OUTCOMES)[number];
export const DONE_OUTCOMES: readonly Outcome[] = ['stored', 'skipped', 'deleted', 'refuted'];
export const FAILED_OUTCOMES: readonly Outcome[] = OUTCOMES.filter((outcome) => !DONE_OUTCOMES.includes(outcome));

/** Retries after the first run; the failure after the last one is final. */
export const MAX_ATTEMPTS = 5;

/** One request for a fetch, as the queue takes it. */
export interface FetchRequest {
  activityId: Int64;
  athleteId: Int64;
  reason: Reason;
  /** Re-fetch an activity already stored. */
  force: boolean;
  /** What happened to the activity; without it: created. */
  aspect?: Aspect;
  /** When that happened; one older than the newest known is out of date. */
  eventTime?: Date;
  /** The event carried a valid signature: a deletion needs no confirmation. */
  signed?: boolean;
}

/** A webhook event of an activity, checked. */
export interface ActivityEvent {
  objectId: Int64;
  ownerId: Int64;
  aspect: Aspect;
  /** Whole seconds, by the provider's clock. */
  eventTime: Date;
  subscriptionId: Int64;
  updates: Record<string, unknown>;
  signed: boolean;
}
