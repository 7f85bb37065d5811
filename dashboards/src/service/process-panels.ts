import { alertList, chart, logLines } from '../panels.ts';

const RATE = '[$__rate_interval]';

/** Database, LISTEN connections and Node itself. */
export function runtime() {
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
        description: 'Processes that receive notifications from the database, and how often they reconnected.',
        runbook: 'process.md#activitysynclistenconnectionlost',
      },
      'none',
      [
        ['sum(activity_sync_listen_connected)', 'connected'],
        ['count(activity_sync_listen_connected)', 'processes'],
        ['sum(increase(activity_sync_listen_reconnects_total[$__interval]))', 'reconnected'],
      ],
    ),
    chart(
      {
        title: 'HTTP requests by route',
        description: 'All routes except the one for deliveries, which the row Webhooks shows.',
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
        description: 'Slowest 1% of the event-loop iterations of each process.',
        runbook: 'process.md#activitysynceventlooplag',
      },
      's',
      [['nodejs_eventloop_lag_p99_seconds', '{{instance}}']],
    ),
    chart(
      {
        title: 'Memory',
        description: 'Heap in use and resident memory of each process.',
        runbook: 'process.md#activitysyncheaphigh',
      },
      'bytes',
      [
        ['nodejs_heap_size_used_bytes', 'heap {{instance}}'],
        ['process_resident_memory_bytes', 'resident {{instance}}'],
      ],
    ),
    chart(
      { title: 'CPU', description: 'Cores in use by each process.', runbook: 'process.md#activitysynceventlooplag' },
      'none',
      [[`rate(process_cpu_seconds_total${RATE})`, '{{instance}}']],
    ),
    chart(
      {
        title: 'Garbage collection',
        description: 'Share of the time by kind.',
        runbook: 'process.md#activitysyncheaphigh',
      },
      'percentunit',
      [[`sum by (kind) (rate(nodejs_gc_duration_seconds_sum${RATE}))`, '{{kind}}']],
    ),
    chart(
      {
        title: 'Processes and unexpected errors',
        description: 'Processes that answer Prometheus; unexpected errors of the service.',
        runbook: 'process.md#activitysynctargetdown',
      },
      'none',
      [
        ['sum(up{namespace=~"$namespace",job=~"$job"})', 'processes up'],
        ['sum by (component) (increase(activity_sync_errors_total[$__interval]))', 'errors {{component}}'],
      ],
    ),
  ];
}

/** What fires now, and the lines that say why. */
export function alertsAndLogs() {
  return [
    alertList(
      { title: 'Alerts', description: 'Firing and pending alerts with their text and runbook.', width: 24 },
      '',
    ),
    logLines(
      {
        title: 'Errors',
        description: 'Lines with level error: an operator must act.',
        runbook: 'logs.md#logserviceerror',
      },
      '{namespace=~"$namespace", container="activity-sync"} |= `"level":"error"` | json | level="error"',
    ),
    logLines(
      { title: 'Warnings', description: 'Lines with level warn.' },
      '{namespace=~"$namespace", container="activity-sync"} |= `"level":"warn"` | json | level="warn"',
    ),
    logLines(
      {
        title: 'Database',
        description: 'PostgreSQL’s lines with level error, fatal and panic.',
        runbook: 'logs.md#logdatabaseioerror',
      },
      '{namespace=~"$namespace", container="postgres"} |~ `ERROR|FATAL|PANIC`',
    ),
  ];
}
