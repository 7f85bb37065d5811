import { type DashboardFile, layOut } from './layout.ts';
import { alertList, chart, figure, logLines } from './panels.ts';

const RATE = '[$__rate_interval]';

/** The dashboard of the service, in the order of an activity's way: delivery, queue, provider, store, thumbnail. */
export function serviceDashboard(): DashboardFile {
  return layOut(
    {
      uid: 'activity-sync',
      title: 'Activity Sync',
      description: 'From the webhook to the stored activity and its thumbnail: promises, waits, budget, errors.',
    },
    [
      { title: 'At a glance', panels: glance() },
      { title: 'Webhooks', panels: webhooks() },
      { title: 'Queue', panels: queue() },
      { title: 'Provider and budget', panels: provider() },
      { title: 'Polling and thumbnails', panels: pollingAndThumbnails() },
      { title: 'Database and runtime', panels: runtime() },
      { title: 'Alerts and logs', panels: alertsAndLogs() },
    ],
  );
}

function glance() {
  return [
    figure(
      {
        title: 'Deliveries answered well',
        description: 'Share of the shown time; the promise is 99.9%.',
        runbook: 'webhook.md#activitysyncwebhookerrorbudgetfastburn',
      },
      'percentunit',
      '1 - (sum(increase(activity_sync_webhook_ack_seconds_count{code=~"5.."}[$__range])) or vector(0)) / (sum(increase(activity_sync_webhook_ack_seconds_count[$__range])) > 0)',
      { warn: 0.999, bad: 0.995, isLowBad: true },
    ),
    figure(
      {
        title: 'Acknowledgement, slowest 1%',
        description: 'The provider allows 2 s.',
        runbook: 'webhook.md#activitysyncwebhookackslow',
      },
      's',
      'histogram_quantile(0.99, sum by (le) (rate(activity_sync_webhook_ack_seconds_bucket[$__range])))',
      { warn: 0.5, bad: 1.5 },
    ),
    figure(
      {
        title: 'Webhook to stored, slowest 5%',
        description: 'From the acceptance of a delivery until its activity is stored; the promise is 30 s.',
        runbook: 'webhook.md#activitysyncfreshnessslow',
      },
      's',
      'histogram_quantile(0.95, sum by (le) (rate(activity_sync_webhook_to_stored_seconds_bucket[$__range])))',
      { warn: 15, bad: 30 },
    ),
    figure(
      {
        title: 'Oldest webhook job',
        description: 'How long the oldest webhook job that could run has waited.',
        runbook: 'queue.md#activitysyncwebhookjobold',
      },
      's',
      'max(activity_sync_oldest_due_job_age_seconds{reason="webhook"})',
      { warn: 60, bad: 300 },
    ),
    figure(
      {
        title: 'Budget left',
        description: 'Share of the running window; background jobs leave the last 10%.',
        runbook: 'provider.md#activitysyncbudgetnearlyspent',
      },
      'percentunit',
      'max(activity_sync_budget_left) / (max(activity_sync_budget_capacity) > 0)',
      { warn: 0.2, bad: 0.05, isLowBad: true },
    ),
    figure(
      { title: 'Firing alerts', description: 'Alerts of the service that fire now.' },
      'none',
      'count(ALERTS{alertname=~"ActivitySync.+",alertstate="firing"}) or vector(0)',
      { warn: 1, bad: 3 },
    ),
  ];
}

function webhooks() {
  return [
    chart(
      {
        title: 'Deliveries by result',
        description: 'What came of each delivery.',
        runbook: 'webhook.md#activitysyncwebhooksrefused',
      },
      'reqps',
      [[`sum by (result) (rate(activity_sync_webhook_events_total${RATE}))`, '{{result}}']],
      { isStacked: true },
    ),
    chart(
      {
        title: 'Answers by code',
        description: '503 means that the database was away; the provider delivers again.',
        runbook: 'webhook.md#activitysyncwebhookerrorbudgetfastburn',
      },
      'reqps',
      [[`sum by (code) (rate(activity_sync_webhook_ack_seconds_count${RATE}))`, '{{code}}']],
      { isStacked: true },
    ),
    chart(
      {
        title: 'Acknowledgement time',
        description: 'The provider allows 2 s.',
        runbook: 'webhook.md#activitysyncwebhookackslow',
      },
      's',
      [
        [`histogram_quantile(0.5, sum by (le) (rate(activity_sync_webhook_ack_seconds_bucket${RATE})))`, 'half'],
        [`histogram_quantile(0.95, sum by (le) (rate(activity_sync_webhook_ack_seconds_bucket${RATE})))`, 'slowest 5%'],
        [`histogram_quantile(0.99, sum by (le) (rate(activity_sync_webhook_ack_seconds_bucket${RATE})))`, 'slowest 1%'],
      ],
    ),
    chart(
      {
        title: 'Error ratio against its limits',
        description: 'Above 1.44% over an hour the alert fires.',
        runbook: 'webhook.md#activitysyncwebhookerrorbudgetslowburn',
      },
      'percentunit',
      [
        ['activity_sync:webhook_error_ratio:rate5m', '5 minutes'],
        ['activity_sync:webhook_error_ratio:rate1h', '1 hour'],
        ['activity_sync:webhook_error_ratio:rate6h', '6 hours'],
      ],
    ),
    chart(
      {
        title: 'Webhook to stored',
        description: 'From the acceptance of a delivery until its activity is stored.',
        runbook: 'webhook.md#activitysyncfreshnessslow',
      },
      's',
      [
        [`histogram_quantile(0.5, sum by (le) (rate(activity_sync_webhook_to_stored_seconds_bucket${RATE})))`, 'half'],
        [
          `histogram_quantile(0.95, sum by (le) (rate(activity_sync_webhook_to_stored_seconds_bucket${RATE})))`,
          'slowest 5%',
        ],
      ],
    ),
    chart(
      {
        title: 'Time since the newest delivery',
        description: 'Grows while the provider is silent.',
        runbook: 'webhook.md#activitysyncwebhooksstopped',
      },
      's',
      [['time() - (max(activity_sync_webhook_last_received_timestamp_seconds) > 0)', 'newest delivery']],
    ),
  ];
}

function queue() {
  return [
    chart(
      { title: 'Jobs by status', description: 'All jobs that are kept.', runbook: 'queue.md#activitysyncqueuegrowing' },
      'none',
      [['sum by (status) (max by (status, reason) (activity_sync_jobs))', '{{status}}']],
    ),
    chart(
      {
        title: 'Pending jobs by reason',
        description: 'Webhook jobs go first.',
        runbook: 'queue.md#activitysyncqueuegrowing',
      },
      'none',
      [['max by (reason) (activity_sync_jobs{status="pending"})', '{{reason}}']],
      { isStacked: true },
    ),
    chart(
      {
        title: 'What pending jobs wait for',
        description: 'Only waiting for a turn is up to the workers.',
        runbook: 'queue.md#activitysyncqueuestalled',
      },
      'none',
      [['max by (cause) (activity_sync_jobs_waiting)', '{{cause}}']],
      { isStacked: true },
    ),
    chart(
      {
        title: 'Oldest job that could run',
        description: 'Age by reason.',
        runbook: 'queue.md#activitysyncwebhookjobold',
      },
      's',
      [['max by (reason) (activity_sync_oldest_due_job_age_seconds)', '{{reason}}']],
    ),
    chart(
      {
        title: 'Runs by result',
        description: 'What the runs of jobs ended in.',
        runbook: 'queue.md#activitysyncjobfailureratiohigh',
      },
      'ops',
      [[`sum by (result) (rate(activity_sync_jobs_finished_total${RATE}))`, '{{result}}']],
      { isStacked: true },
    ),
    chart(
      {
        title: 'Waiting against running',
        description: 'Slowest 5%: from due to claimed, and from claimed to settled.',
        runbook: 'queue.md#activitysyncqueuestalled',
      },
      's',
      [
        [
          `histogram_quantile(0.95, sum by (le, reason) (rate(activity_sync_job_wait_seconds_bucket${RATE})))`,
          'wait {{reason}}',
        ],
        [
          `histogram_quantile(0.95, sum by (le, reason) (rate(activity_sync_job_run_seconds_bucket${RATE})))`,
          'run {{reason}}',
        ],
      ],
    ),
    chart(
      {
        title: 'Worker slots',
        description: 'Busy slots and all slots, over all replicas.',
        runbook: 'queue.md#activitysyncqueuestalled',
      },
      'none',
      [
        ['sum by (worker) (activity_sync_workers_busy)', '{{worker}} busy'],
        ['sum by (worker) (activity_sync_worker_slots)', '{{worker}} all'],
      ],
    ),
    chart(
      {
        title: 'Jobs taken back',
        description: 'Their worker did not finish in time.',
        runbook: 'queue.md#activitysyncjobsreclaimed',
      },
      'none',
      [['sum(increase(activity_sync_jobs_reclaimed_total[$__rate_interval]))', 'taken back']],
    ),
  ];
}

function provider() {
  return [
    chart(
      {
        title: 'Calls by code',
        description: 'Calls to the provider.',
        runbook: 'provider.md#activitysyncproviderfailing',
      },
      'reqps',
      [[`sum by (code) (rate(activity_sync_provider_calls_total${RATE}))`, '{{code}}']],
      { isStacked: true },
    ),
    chart(
      {
        title: 'Calls by endpoint',
        description: 'Calls to the provider.',
        runbook: 'provider.md#activitysyncbudgetnearlyspent',
      },
      'reqps',
      [[`sum by (endpoint) (rate(activity_sync_provider_calls_total${RATE}))`, '{{endpoint}}']],
      { isStacked: true },
    ),
    chart(
      {
        title: 'Call time',
        description: 'Slowest 5% by endpoint.',
        runbook: 'provider.md#activitysyncproviderfailing',
      },
      's',
      [
        [
          `histogram_quantile(0.95, sum by (le, endpoint) (rate(activity_sync_provider_call_seconds_bucket${RATE})))`,
          '{{endpoint}}',
        ],
      ],
    ),
    chart(
      {
        title: 'Budget of the window',
        description: 'Calls; the capacity falls after a 429 and recovers.',
        runbook: 'provider.md#activitysyncbudgetnearlyspent',
      },
      'none',
      [
        ['max(activity_sync_budget_used)', 'used'],
        ['max(activity_sync_budget_capacity)', 'capacity'],
        ['max(activity_sync_budget_configured_capacity)', 'configured'],
      ],
    ),
    chart(
      {
        title: 'Budget of the day',
        description: 'Calls of the UTC day and the limit.',
        runbook: 'provider.md#activitysyncdailybudgetnearlyspent',
      },
      'none',
      [
        ['max(activity_sync_budget_daily_used)', 'used'],
        ['max(activity_sync_budget_daily_limit)', 'limit'],
      ],
    ),
    chart(
      {
        title: 'Grants and refusals',
        description: 'What the budget answered, by reason of the job.',
        runbook: 'provider.md#activitysyncdailybudgetnearlyspent',
      },
      'ops',
      [[`sum by (reason, result) (rate(activity_sync_budget_grants_total${RATE}))`, '{{reason}} {{result}}']],
    ),
    chart(
      {
        title: 'Throttling',
        description: 'Answers 429, and how long calls are stopped.',
        runbook: 'provider.md#activitysyncthrottled',
      },
      's',
      [
        ['sum(increase(activity_sync_provider_throttled_total[$__rate_interval]))', 'answers 429'],
        ['clamp_min(max(activity_sync_budget_blocked_until_timestamp_seconds) - time(), 0)', 'stopped for (s)'],
      ],
    ),
    chart(
      { title: 'Token refreshes', description: 'By result.', runbook: 'provider.md#activitysynctokenrefreshfailing' },
      'none',
      [['sum by (result) (increase(activity_sync_token_refreshes_total[$__rate_interval]))', '{{result}}']],
    ),
    chart(
      {
        title: 'Athletes and refused access',
        description: 'Connected athletes by state; fetches refused with 401 or 403.',
        runbook: 'provider.md#activitysyncauthorisationfailing',
      },
      'none',
      [
        ['max by (state) (activity_sync_athletes)', '{{state}}'],
        ['sum by (code) (increase(activity_sync_authorisation_failures_total[$__rate_interval]))', 'refused {{code}}'],
      ],
    ),
  ];
}

function pollingAndThumbnails() {
  return [
    chart(
      {
        title: 'Drift',
        description: 'What polling found that webhooks should have brought.',
        runbook: 'polling.md#activitysyncdriftfound',
        width: 6,
      },
      'none',
      [['sum by (kind) (increase(activity_sync_drift_total[$__rate_interval]))', '{{kind}}']],
    ),
    chart(
      {
        title: 'Time since the last sweep',
        description: 'Against the configured interval.',
        runbook: 'polling.md#activitysyncpollingnotrunning',
        width: 6,
      },
      's',
      [
        ['time() - (max(activity_sync_polling_last_finished_timestamp_seconds) > 0)', 'since the last sweep'],
        ['max(activity_sync_polling_interval_seconds)', 'interval'],
        ['sum by (result) (increase(activity_sync_polling_sweeps_total[$__rate_interval]))', 'sweeps {{result}}'],
      ],
    ),
    chart(
      { title: 'Thumbnails', description: 'By result.', runbook: 'polling.md#activitysyncthumbnailsfailing', width: 6 },
      'ops',
      [[`sum by (result) (rate(activity_sync_thumbnails_total${RATE}))`, '{{result}}']],
      { isStacked: true },
    ),
    chart(
      {
        title: 'Rendering time',
        description: 'Slowest 5%.',
        runbook: 'polling.md#activitysyncthumbnailsfailing',
        width: 6,
      },
      's',
      [[`histogram_quantile(0.95, sum by (le) (rate(activity_sync_thumbnail_seconds_bucket${RATE})))`, 'slowest 5%']],
    ),
  ];
}

function runtime() {
  return [
    chart(
      {
        title: 'Database connections',
        description: "Of each process' pool; waiting ones are queries without a connection.",
        runbook: 'process.md#activitysyncdatabasepoolexhausted',
      },
      'none',
      [['sum by (state) (activity_sync_db_pool_connections)', '{{state}}']],
    ),
    chart(
      {
        title: 'LISTEN connections',
        description: 'Processes that hear the database, and how often they connected anew.',
        runbook: 'process.md#activitysynclistenconnectionlost',
      },
      'none',
      [
        ['sum(activity_sync_listen_connected)', 'connected'],
        ['count(activity_sync_listen_connected)', 'processes'],
        ['sum(increase(activity_sync_listen_reconnects_total[$__rate_interval]))', 'made anew'],
      ],
    ),
    chart(
      {
        title: 'HTTP requests by route',
        description: 'All routes of the web processes.',
        runbook: 'process.md#activitysynchttperrors',
      },
      'reqps',
      [[`sum by (route, code) (rate(activity_sync_http_requests_total${RATE}))`, '{{route}} {{code}}']],
    ),
    chart(
      { title: 'HTTP time by route', description: 'Slowest 5%.', runbook: 'process.md#activitysynchttperrors' },
      's',
      [
        [
          `histogram_quantile(0.95, sum by (le, route) (rate(activity_sync_http_request_seconds_bucket${RATE})))`,
          '{{route}}',
        ],
      ],
    ),
    chart(
      {
        title: 'Event-loop lag',
        description: 'Slowest 1% of the turns of each process.',
        runbook: 'process.md#activitysynceventlooplag',
      },
      's',
      [['nodejs_eventloop_lag_p99_seconds{job="activity-sync"}', '{{instance}}']],
    ),
    chart(
      {
        title: 'Memory',
        description: 'Heap in use and resident memory of each process.',
        runbook: 'process.md#activitysyncheaphigh',
      },
      'bytes',
      [
        ['nodejs_heap_size_used_bytes{job="activity-sync"}', 'heap {{instance}}'],
        ['process_resident_memory_bytes{job="activity-sync"}', 'resident {{instance}}'],
      ],
    ),
    chart(
      { title: 'CPU', description: 'Cores in use by each process.', runbook: 'process.md#activitysynceventlooplag' },
      'none',
      [[`rate(process_cpu_seconds_total{job="activity-sync"}${RATE})`, '{{instance}}']],
    ),
    chart(
      {
        title: 'Garbage collection',
        description: 'Share of the time by kind.',
        runbook: 'process.md#activitysyncheaphigh',
      },
      'percentunit',
      [[`sum by (kind) (rate(nodejs_gc_duration_seconds_sum{job="activity-sync"}${RATE}))`, '{{kind}}']],
    ),
    chart(
      {
        title: 'Processes and unexpected errors',
        description: 'Processes that answer Prometheus; errors that nobody foresaw.',
        runbook: 'process.md#activitysynctargetdown',
      },
      'none',
      [
        ['sum(up{job="activity-sync"})', 'processes up'],
        ['sum by (component) (increase(activity_sync_errors_total[$__rate_interval]))', 'errors {{component}}'],
      ],
    ),
  ];
}

function alertsAndLogs() {
  return [
    alertList(
      { title: 'Alerts', description: 'Firing and pending alerts with their text and runbook.', width: 24 },
      '',
    ),
    logLines(
      {
        title: 'Errors',
        description: 'Lines of the level error: somebody must act.',
        runbook: 'logs.md#logserviceerror',
      },
      '{namespace="activity-sync", container="activity-sync"} |= `"level":"error"` | json | level="error"',
    ),
    logLines(
      { title: 'Warnings', description: 'Lines of the level warn.' },
      '{namespace="activity-sync", container="activity-sync"} |= `"level":"warn"` | json | level="warn"',
    ),
    logLines(
      {
        title: 'Database',
        description: 'What PostgreSQL says at the levels error, fatal and panic.',
        runbook: 'logs.md#logdatabaseioerror',
      },
      '{namespace="activity-sync", container="postgres"} |~ `ERROR|FATAL|PANIC`',
    ),
  ];
}
