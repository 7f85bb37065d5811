import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { ASPECTS, OUTCOMES, REASONS } from '../domain/job.ts';
import { findHeapLimit } from './heap-limit.ts';

/** The results of a fetch job's run; 'error' when the result could not be stored. */
const RUN_RESULTS = [...OUTCOMES, 'retry', 'put_back', 'superseded', 'error'] as const;

/** How the answer to a delivery is counted. */
export const ACK_CODES = ['200', '4xx', '500', '503'] as const;

/** Every metric of the service. Label values are bounded: never an athlete, an activity or a job id. */
export type Metrics = ReturnType<typeof createMetrics>;

const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 1.5, 2.5, 5, 10, 30, 60, 300, 900, 3600];

/**
 * Builds the metrics of one process in a registry of their own, so that two services in one process
 * (tests, the demo) never share a counter.
 */
export function createMetrics() {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  const counter = <L extends string>(name: string, help: string, labelNames: L[] = []) =>
    new Counter({ name, help, labelNames, registers });
  const gauge = <L extends string>(name: string, help: string, labelNames: L[] = []) =>
    new Gauge({ name, help, labelNames, registers });
  const seconds = <L extends string>(name: string, help: string, labelNames: L[] = []) =>
    new Histogram({ name, help, labelNames, registers, buckets: SECONDS });

  const metrics = {
    registry,
    webhookEvents: counter(
      'activity_sync_webhook_events_total',
      'Webhook deliveries by object, aspect and result (accepted, duplicate, stale, refuted, deauthorized, refused, limited, unavailable, failed)',
      ['object_type', 'aspect_type', 'result'],
    ),
    webhookAck: seconds(
      'activity_sync_webhook_ack_seconds',
      'Time from a delivery to its answer; the provider allows 2 s',
      ['code'],
    ),
    webhookLastReceived: gauge(
      'activity_sync_webhook_last_received_timestamp_seconds',
      'When the newest delivery was accepted (database, all replicas)',
    ),
    httpRequests: counter('activity_sync_http_requests_total', 'HTTP requests by route, method and status code', [
      'route',
      'method',
      'code',
    ]),
    httpDuration: seconds('activity_sync_http_request_seconds', 'HTTP request time by route and method', [
      'route',
      'method',
    ]),

    jobs: gauge('activity_sync_jobs', 'ActivityFetchJobs by status and reason (read by one replica)', [
      'status',
      'reason',
    ]),
    oldestDueJob: gauge(
      'activity_sync_oldest_due_job_age_seconds',
      'Age of the oldest due job by reason: due, past its cooldown, and waiting for a worker or the budget; 0 when none is',
      ['reason'],
    ),
    oldestDueThumbnail: gauge(
      'activity_sync_oldest_due_thumbnail_age_seconds',
      'Time since the first thumbnail job in line became due; 0 when none is',
    ),
    fetchPaused: gauge('activity_sync_fetch_paused', '1 while an operator has paused fetching, by reason (or all)', [
      'reason',
    ]),
    jobsWaiting: gauge(
      'activity_sync_jobs_waiting',
      'Pending jobs by what they wait for (turn, cooldown, budget, backoff)',
      ['cause'],
    ),
    jobsFinished: counter(
      'activity_sync_jobs_finished_total',
      `Runs of fetch jobs by reason and result (${RUN_RESULTS.join(', ')})`,
      ['reason', 'result'],
    ),
    jobWait: seconds('activity_sync_job_wait_seconds', 'Time from due to claimed, by reason', ['reason']),
    jobRun: seconds('activity_sync_job_run_seconds', 'Time from claimed to settled, by reason', ['reason']),
    storedAfter: seconds(
      'activity_sync_webhook_to_stored_seconds',
      'Time from the acceptance of a webhook event to its stored activity',
    ),
    staleReclaims: counter(
      'activity_sync_jobs_reclaimed_total',
      'Jobs reclaimed from a worker that died or did not finish in time',
    ),
    workersBusy: gauge('activity_sync_workers_busy', 'Worker slots that are running a job', ['worker']),
    workerSlots: gauge('activity_sync_worker_slots', 'Worker slots of this process', ['worker']),

    providerCalls: counter(
      'activity_sync_provider_calls_total',
      'Calls to the provider by endpoint and status code (or network, timeout, unreadable)',
      ['endpoint', 'code'],
    ),
    providerDuration: seconds('activity_sync_provider_call_seconds', 'Time of a call to the provider', ['endpoint']),
    tokenRefreshes: counter(
      'activity_sync_token_refreshes_total',
      'Refreshes of athlete tokens by result (refreshed, refused, failed)',
      ['result'],
    ),
    authorisationFailures: counter(
      'activity_sync_authorisation_failures_total',
      'Fetches that the provider refused with 401 or 403',
      ['code'],
    ),
    athletes: gauge('activity_sync_athletes', 'Connected athletes by state', ['state']),

    budgetCapacity: gauge('activity_sync_budget_capacity', 'Calls allowed in the current window, reductions included'),
    budgetConfigured: gauge('activity_sync_budget_configured_capacity', 'Calls allowed in a window by configuration'),
    budgetUsed: gauge('activity_sync_budget_used', 'Calls of the current window that are spent'),
    budgetLeft: gauge('activity_sync_budget_left', 'Calls of the current window that are left'),
    budgetBlockedUntil: gauge(
      'activity_sync_budget_blocked_until_timestamp_seconds',
      'Time until which no call is made; 0 when nothing blocks',
    ),
    budgetDailyUsed: gauge('activity_sync_budget_daily_used', 'Calls of this UTC day that are spent'),
    budgetDailyLimit: gauge(
      'activity_sync_budget_daily_limit',
      'Calls allowed in a UTC day; 0 when the provider never said',
    ),
    budgetGrants: counter(
      'activity_sync_budget_grants_total',
      'Calls that the shared budget granted or refused, by reason',
      ['reason', 'result'],
    ),
    throttled: counter('activity_sync_provider_throttled_total', 'Times that the provider answered 429'),

    pollingSweeps: counter('activity_sync_polling_sweeps_total', 'Polling sweeps by result (finished, failed)', [
      'result',
    ]),
    pollingLastFinished: gauge(
      'activity_sync_polling_last_finished_timestamp_seconds',
      'When a polling sweep last finished (database, all replicas)',
    ),
    pollingInterval: gauge(
      'activity_sync_polling_interval_seconds',
      'Configured polling interval; 0 when automatic sync is disabled',
    ),
    drift: counter(
      'activity_sync_drift_total',
      'What polling found that webhooks should have brought (missed, changed, vanished)',
      ['kind'],
    ),

    thumbnails: counter(
      'activity_sync_thumbnails_total',
      'Thumbnail renderings by result (rendered, withoutMap, failed, superseded)',
      ['result'],
    ),
    thumbnailDuration: seconds('activity_sync_thumbnail_seconds', 'Time to render a thumbnail'),

    deliveries: counter(
      'activity_sync_deliveries_total',
      'Attempts to deliver a change to an endpoint by result (delivered, retry, exhausted)',
      ['result'],
    ),
    deliveryDuration: seconds('activity_sync_delivery_seconds', 'Time of one call to an endpoint'),
    deliveredAfter: seconds('activity_sync_delivered_after_seconds', 'Time from a change to its accepted delivery'),
    deliveriesWaiting: gauge(
      'activity_sync_deliveries_waiting',
      'Deliveries that are not settled (read by one replica)',
    ),
    oldestDueDelivery: gauge(
      'activity_sync_oldest_due_delivery_age_seconds',
      'Time since the first delivery job in line became due; 0 when none is',
    ),
    endpoints: gauge(
      'activity_sync_endpoints',
      'Endpoints of the application by state (healthy, failing, disabled); without those that the application itself disabled',
      ['state'],
    ),

    dbPool: gauge('activity_sync_db_pool_connections', 'Connections of the pool by state (total, idle, waiting)', [
      'state',
    ]),
    listenConnected: gauge('activity_sync_listen_connected', '1 while notifications arrive over the LISTEN connection'),
    listenReconnects: counter(
      'activity_sync_listen_reconnects_total',
      'Times that the LISTEN connection was re-established',
    ),
    errors: counter(
      'activity_sync_errors_total',
      'Unexpected errors by component; an unreachable database does not count',
      ['component'],
    ),
    heapLimit: gauge('activity_sync_heap_limit_bytes', 'Heap size at which the process runs out of memory and ends'),
  };
  metrics.heapLimit.set(findHeapLimit());
  startAtZero(metrics);
  return metrics;
}

/**
 * Initialises the known label values of the counters that alerts read: a rate does not see a series' first value,
 * so the first event of a kind would be missed.
 */
function startAtZero(metrics: Metrics): void {
  for (const aspect_type of ASPECTS) {
    for (const result of ['accepted', 'stale', 'refused', 'unavailable', 'failed']) {
      for (const object_type of ['activity', 'athlete'])
        metrics.webhookEvents.inc({ object_type, aspect_type, result }, 0);
    }
    metrics.webhookEvents.inc({ object_type: 'activity', aspect_type, result: 'duplicate' }, 0);
    metrics.webhookEvents.inc({ object_type: 'athlete', aspect_type, result: 'deauthorized' }, 0);
  }
  metrics.webhookEvents.inc({ object_type: 'unknown', aspect_type: 'unknown', result: 'refused' }, 0);
  for (const code of ACK_CODES) metrics.webhookAck.zero({ code });
  for (const reason of REASONS) {
    for (const result of RUN_RESULTS) metrics.jobsFinished.inc({ reason, result }, 0);
    for (const result of ['granted', 'refused']) metrics.budgetGrants.inc({ reason, result }, 0);
  }
  for (const endpoint of ['activity', 'activities', 'token']) {
    for (const code of ['200', '401', '403', '404', '429', '500', '503', 'network', 'timeout', 'unreadable']) {
      metrics.providerCalls.inc({ endpoint, code }, 0);
    }
  }
  for (const result of ['refreshed', 'refused', 'failed']) metrics.tokenRefreshes.inc({ result }, 0);
  for (const code of ['401', '403']) metrics.authorisationFailures.inc({ code }, 0);
  for (const result of ['finished', 'failed']) metrics.pollingSweeps.inc({ result }, 0);
  for (const kind of ['missed', 'changed', 'vanished']) metrics.drift.inc({ kind }, 0);
  for (const result of ['rendered', 'withoutMap', 'failed', 'superseded']) metrics.thumbnails.inc({ result }, 0);
  for (const result of ['delivered', 'retry', 'exhausted']) metrics.deliveries.inc({ result }, 0);
  for (const component of ['http', 'fetch', 'thumbnail', 'polling', 'sync', 'delivery', 'pg-boss'])
    metrics.errors.inc({ component }, 0);
}
