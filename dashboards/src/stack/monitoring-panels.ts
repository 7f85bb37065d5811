import { alertList, chart, figure, logLines } from '../panels.ts';

export function alertPath() {
  return [
    figure(
      { title: 'Firing alerts', description: 'All but the liveness alert, which always fires.' },
      'none',
      'count(ALERTS{alertstate="firing",alertname!~"Watchdog|InfoInhibitor"}) or vector(0)',
      { warn: 1, bad: 5 },
    ),
    figure(
      {
        title: 'Liveness alert',
        description: '1 while alerts are evaluated.',
        runbook: 'platform.md#metricrulesfailing',
      },
      'none',
      'count(ALERTS{alertname="Watchdog",alertstate="firing"}) or vector(0)',
      { warn: 1, bad: 1, isLowBad: true },
    ),
    figure(
      { title: 'Failed notifications', description: 'Of the last hour.', runbook: 'platform.md#alertdeliveryfailing' },
      'none',
      'sum(increase(alertmanager_notifications_failed_total[1h])) or vector(0)',
      { warn: 1, bad: 1 },
    ),
    chart(
      {
        title: 'Notifications',
        description: 'By integration.',
        runbook: 'platform.md#alertdeliveryfailing',
        width: 12,
      },
      'none',
      [
        ['sum by (integration) (increase(alertmanager_notifications_total[$__interval]))', 'sent {{integration}}'],
        [
          'sum by (integration) (increase(alertmanager_notifications_failed_total[$__interval]))',
          'failed {{integration}}',
        ],
      ],
    ),
    alertList(
      { title: 'Alerts', description: 'Firing and pending alerts with their text and runbook.', width: 24 },
      '',
    ),
  ];
}

export function metrics() {
  return [
    chart(
      {
        title: 'Targets',
        description: 'Scrape targets that do not answer, by job.',
        runbook: 'process.md#activitysynctargetdown',
      },
      'none',
      [['sum by (job) (1 - up)', '{{job}}']],
    ),
    chart(
      {
        title: 'Series and samples',
        description: 'Series in memory, and samples a second.',
        runbook: 'platform.md#volumefilling',
      },
      'none',
      [
        ['sum(prometheus_tsdb_head_series)', 'series'],
        ['sum(rate(prometheus_tsdb_head_samples_appended_total[$__rate_interval]))', 'samples a second'],
      ],
    ),
    chart(
      {
        title: 'Failing rules',
        description: 'Failed evaluations of metric rules.',
        runbook: 'platform.md#metricrulesfailing',
      },
      'none',
      [
        [
          'sum by (rule_group) (increase(prometheus_rule_evaluation_failures_total[$__interval])) > 0',
          '{{rule_group}}',
        ],
      ],
    ),
  ];
}

export function logs() {
  return [
    chart(
      {
        title: 'Lines',
        description: 'Lines a second that the log store receives.',
        runbook: 'platform.md#loglinesstopped',
        width: 6,
      },
      'none',
      [['sum(rate(loki_distributor_lines_received_total[$__rate_interval]))', 'lines']],
    ),
    chart(
      {
        title: 'Bytes',
        description: 'Bytes a second that the log store receives.',
        runbook: 'platform.md#volumefilling',
        width: 6,
      },
      'Bps',
      [['sum(rate(loki_distributor_bytes_received_total[$__rate_interval]))', 'bytes']],
    ),
    chart(
      {
        title: 'Collectors',
        description: 'Lines a second sent and dropped by each collector.',
        runbook: 'platform.md#loglineslost',
        width: 6,
      },
      'none',
      [
        ['sum by (instance) (rate(loki_write_sent_entries_total[$__rate_interval]))', 'sent {{instance}}'],
        ['sum by (instance) (rate(loki_write_dropped_entries_total[$__rate_interval]))', 'dropped {{instance}}'],
      ],
    ),
    chart(
      {
        title: 'Log rules',
        description: 'Rules loaded, and evaluations that failed.',
        runbook: 'platform.md#logrulesnotloaded',
        width: 6,
      },
      'none',
      [
        ['sum by (rule_group) (loki_prometheus_rule_group_rules)', 'loaded {{rule_group}}'],
        [
          'sum by (rule_group) (increase(loki_prometheus_rule_evaluation_failures_total[$__interval]))',
          'failed {{rule_group}}',
        ],
      ],
    ),
    logLines(
      { title: 'Events', description: 'Kubernetes events that warn.', runbook: 'logs.md#logcrashloop' },
      '{source="events"} |= `type=Warning`',
    ),
    logLines(
      {
        title: 'Refused sign-ins',
        description: "In any namespace but the stack's own.",
        runbook: 'logs.md#logauthenticationfailure',
      },
      '{namespace=~".+", namespace!="monitoring"} |~ `[Aa]ccess denied|[Aa]uthentication failed`',
    ),
  ];
}
