import type { DeliveredType } from '../../domain/change.ts';

/** The answers of the admin interface that the console shows, as /api/openapi.json describes them. */

export type JobStatus = 'pending' | 'working' | 'done' | 'failed';
export const STATUSES: readonly JobStatus[] = ['pending', 'working', 'done', 'failed'];
export type Reason = 'webhook' | 'manual' | 'polling';
export const REASONS: readonly Reason[] = ['webhook', 'manual', 'polling'];

export type Stats = Record<JobStatus | 'total', number>;

export interface Job {
  id: string;
  activityId: string;
  athleteId: string;
  reason: Reason;
  force: boolean;
  status: JobStatus;
  attempts: number;
  maxAttempts: number;
  nextRunAt: string;
  error: string | null;
  createdAt: string;
  updatedAt: string;
  outcome: string | null;
}

/** A change of many jobs that runs in the background. */
export interface BulkChange {
  id: string;
  action: 'retry' | 'force' | 'delete' | 'replay';
  total: number;
  changed: number;
  state: 'running' | 'finished' | 'cancelled' | 'interrupted' | 'failed';
  error: string | null;
  startedAt: string;
  finishedAt: string | null;
}

/** What a search found. */
export type Found =
  | { kind: 'job'; id: string; activityId: string; athleteId: string }
  | { kind: 'activity'; id: string; athleteId: string; name: string }
  | { kind: 'athlete'; id: string; name: string | null };

/** Failed jobs grouped by their error. */
export interface ErrorGroups {
  groups: { error: string; jobs: number; newestAt: string; newestJobId: string }[];
  jobs: number;
  /** False: more jobs match than were grouped. */
  isWhole: boolean;
}

export type WaitCause = 'turn' | 'cooldown' | 'budget' | 'backoff';

export interface Attempt {
  startedAt: string;
  endedAt: string;
  result: 'done' | 'retry' | 'put_back' | 'failed';
  outcome: string | null;
  error: string | null;
}

/** A request for a job that did not come from the provider. */
export interface JobRequest {
  at: string;
  kind: 'request' | 'retry' | 'replay' | 'sync' | 'polling' | 'connect';
  by: 'admin' | 'session' | null;
  source: string | null;
}

export interface Delivery {
  id: string;
  /** Null for an event of the athlete. */
  activityId: string | null;
  athleteId: string;
  subscriptionId: string | null;
  aspect: 'create' | 'update' | 'delete';
  eventTime: string;
  updates: Record<string, unknown>;
  result: 'accepted' | 'stale' | 'refuted';
  deliveries: number;
  receivedAt: string;
  lastReceivedAt: string;
}

export interface LedgerEntry extends Delivery {
  job: { id: string; status: JobStatus; outcome: string | null; error: string | null } | null;
}

export interface JobPage {
  job: Job;
  attempts: Attempt[];
  requests: JobRequest[];
  deliveries: Delivery[];
  whyNotSooner: { cause: WaitCause | 'pause'; until: string | null } | null;
}

export interface Budget {
  window: { start: string; end: string };
  configuredCapacity: number;
  capacity: number;
  used: number;
  left: number;
  backgroundUsed: number;
  reducedCapacity: number | null;
  blockedUntil: string | null;
  blockedBy: string | null;
  daily: { used: number; limit: number | null };
  opensAt: Record<Reason, string | null>;
  waiting: Record<WaitCause, number>;
}

export type AthleteState = 'healthy' | 'reconnect' | 'scope';

export interface Athlete {
  id: string;
  name: string | null;
  externalId: string | null;
  state: AthleteState;
  stateDetail: string | null;
  scope: string;
  connectedAt: string;
  lastActivityAt: string | null;
  waitingJobs: number;
  cooldownUntil: string | null;
}

export interface Sync {
  id: string;
  athleteId: string | null;
  state: 'running' | 'waiting' | 'finished' | 'cancelled' | 'failed';
  force: boolean;
  after: string | null;
  before: string;
  athletes: { total: number; listed: number; failed: number };
  pages: number;
  listed: number;
  queued: number;
  fetched: number;
  fetchesFailed: number;
  total: number | null;
  waitingUntil: string | null;
  expectedEnd: string | null;
  error: string | null;
  createdAt: string;
  finishedAt: string | null;
}

export interface Activity {
  id: string;
  athleteId: string;
  name: string;
  sportType: string;
  startDate: string;
  timezone: string | null;
  distanceM: number;
  movingTimeS: number;
  elapsedTimeS: number;
  elevationGainM: number;
  private: boolean;
  fetchedAt: string;
  thumbnail: string | null;
}

export interface WholeActivity extends Activity {
  polyline: string | null;
  detail: Record<string, unknown>;
}

export interface Subscription {
  id: string;
  callbackUrl: string;
  createdAt: string | null;
  updatedAt: string | null;
}

export interface Finding {
  check: string;
  ok: boolean;
  detail: string;
  nextStep: string | null;
}

export interface AuditEntry {
  id: string;
  at: string;
  who: 'admin' | 'read' | 'session' | 'application' | 'nobody';
  action: string;
  target: string | null;
  detail: Record<string, unknown>;
  status: number | null;
}

export interface Spread {
  count: number;
  p50S: number | null;
  p95S: number | null;
}

export interface Sums {
  finished: Record<string, number>;
  drift: Record<string, number>;
  wait: Record<Reason, Spread>;
  stored: Spread;
}

/** Fetching that an operator has paused. */
export interface FetchPause {
  reason: Reason | 'all';
  pausedBy: string;
  pausedAt: string;
  note: string;
}

export interface Process {
  id: string;
  host: string;
  pid: number;
  roles: string[];
  version: string;
  startedAt: string;
  lastSeenAt: string;
  alive: boolean;
  fetching: number;
  drawing: number;
}

export interface QueueDepth {
  waiting: number;
  running: number;
  oldestDueS: number;
}

export interface Overview {
  stats: Stats;
  oldestDueS: Record<Reason, number>;
  budget: Budget;
  athletes: Record<AthleteState, number>;
  lastWebhookAt: string | null;
  polling: { startedAt: string | null; finishedAt: string | null };
  fetches: { succeeded: number; failed: number; failingSince: string | null };
  subscriptions: number;
  pauses: FetchPause[];
  doctor: { at: string; faults: { check: string; detail: string }[] } | null;
  lastHour: Sums;
  lastDay: Sums;
}

export interface History {
  stepS: number;
  points: (Sums & { at: string })[];
}

/** Which changes an endpoint of the application receives, and where. */
export interface EndpointSettings {
  url: string;
  /** null: every type. */
  types: DeliveredType[] | null;
  /** null: every athlete. */
  athleteIds: string[] | null;
  description: string;
}

export interface Endpoint extends EndpointSettings {
  id: string;
  createdAt: string;
  succeededAt: string | null;
  failingSince: string | null;
  disabledAt: string | null;
  disabledReason: 'gone' | 'failing' | 'request' | null;
  formerUntil: string | null;
  waiting: number;
  waitingSince: string | null;
  recent: { attempts: number; delivered: number; p50Ms: number | null; p95Ms: number | null };
  lastFailure: { at: string; status: number | null; error: string | null; result: SendResult } | null;
}

export type SendResult = 'delivered' | 'retry' | 'exhausted';
export const SEND_RESULTS: readonly SendResult[] = ['delivered', 'retry', 'exhausted'];

/** An attempt to send a change to an endpoint. */
export interface SendAttempt {
  id: string;
  changeId: string;
  type: string;
  athleteId: string | null;
  activityId: string | null;
  at: string;
  durationMs: number;
  status: number | null;
  error: string | null;
  /** The first kilobyte of it. */
  answer: string | null;
  result: SendResult;
}

/** A change of an activity, and where it was sent. */
export interface ToldChange {
  id: string;
  type: string;
  at: string;
  deliveries: {
    id: string;
    endpointId: string;
    url: string;
    state: 'waiting' | 'delivered' | 'exhausted';
    attempts: number;
    queuedAt: string;
    settledAt: string | null;
  }[];
}

export interface ApiToken {
  id: string;
  name: string;
  scope: 'read' | 'write';
  createdAt: string;
  lastUsedAt: string | null;
  revokedAt: string | null;
}
