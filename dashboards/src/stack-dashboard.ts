import { type DashboardFile, layOut } from './layout.ts';
import { alertList, chart, figure, logLines, table } from './panels.ts';

/** The dashboard of the monitoring stack and the platform under the service. */
export function stackDashboard(): DashboardFile {
  return layOut(
    {
      uid: 'activity-sync-stack',
      title: 'Activity Sync platform',
      description:
        'The monitoring stack itself, and the pods, volumes, database and GitOps objects that the service stands on.',
    },
    [
      { title: 'Alert path', panels: alertPath() },
      { title: 'Metrics', panels: metrics() },
      { title: 'Logs', panels: logs() },
      { title: 'Pods, nodes and volumes', panels: platform() },
      { title: 'Database, backups and GitOps', panels: database() },
    ],
  );
}

function alertPath() {
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
        description: '1 while alerts are evaluated at all.',
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
        description: 'By the way they take.',
        runbook: 'platform.md#alertdeliveryfailing',
        width: 12,
      },
      'none',
      [
        ['sum by (integration) (increase(alertmanager_notifications_total[$__rate_interval]))', 'sent {{integration}}'],
        [
          'sum by (integration) (increase(alertmanager_notifications_failed_total[$__rate_interval]))',
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

function metrics() {
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
        title: 'Rules that fail',
        description: 'Failed evaluations of metric rules.',
        runbook: 'platform.md#metricrulesfailing',
      },
      'none',
      [
        [
          'sum by (rule_group) (increase(prometheus_rule_evaluation_failures_total[$__rate_interval])) > 0',
          '{{rule_group}}',
        ],
      ],
    ),
  ];
}

function logs() {
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
          'sum by (rule_group) (increase(loki_prometheus_rule_evaluation_failures_total[$__rate_interval]))',
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

function platform() {
  return [
    chart(
      {
        title: 'Pods that do not run',
        description: 'Pods by phase, other than running and succeeded.',
        runbook: 'platform.md#podcrashlooping',
      },
      'none',
      [
        [
          'sum by (namespace, phase) (kube_pod_status_phase{phase!~"Running|Succeeded"}) > 0',
          '{{namespace}} {{phase}}',
        ],
      ],
    ),
    chart({ title: 'Restarts', description: 'Of containers.', runbook: 'platform.md#podcrashlooping' }, 'none', [
      [
        'sum by (namespace, container) (increase(kube_pod_container_status_restarts_total[$__rate_interval])) > 0',
        '{{namespace}} {{container}}',
      ],
    ]),
    chart(
      { title: 'Volumes', description: 'Share in use.', runbook: 'platform.md#volumefilling' },
      'percentunit',
      [
        [
          '1 - kubelet_volume_stats_available_bytes / kubelet_volume_stats_capacity_bytes',
          '{{namespace}} {{persistentvolumeclaim}}',
        ],
      ],
      { max: 1 },
    ),
    chart(
      {
        title: 'Memory of the service',
        description: 'Working set of each pod.',
        runbook: 'platform.md#podoutofmemory',
      },
      'bytes',
      [['max by (pod) (container_memory_working_set_bytes{namespace="activity-sync",container!=""})', '{{pod}}']],
    ),
    chart(
      {
        title: 'CPU throttling of the service',
        description: 'Share of the periods in which a pod was held back.',
        runbook: 'process.md#activitysynceventlooplag',
      },
      'percentunit',
      [
        [
          'sum by (pod) (rate(container_cpu_cfs_throttled_periods_total{namespace="activity-sync"}[$__rate_interval])) / sum by (pod) (rate(container_cpu_cfs_periods_total{namespace="activity-sync"}[$__rate_interval]))',
          '{{pod}}',
        ],
      ],
      { max: 1 },
    ),
    chart(
      { title: 'Nodes', description: 'Memory and CPU in use.', runbook: 'platform.md#podoutofmemory' },
      'percentunit',
      [
        ['1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes', 'memory {{instance}}'],
        ['1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[$__rate_interval]))', 'CPU {{instance}}'],
      ],
      { max: 1 },
    ),
  ];
}

function database() {
  return [
    chart(
      {
        title: 'Database instances',
        description: 'Instances that run, and the lag of replicas.',
        runbook: 'platform.md#databaseinstancedown',
        width: 6,
      },
      'none',
      [
        ['sum(cnpg_collector_up{namespace="activity-sync"})', 'instances'],
        ['max by (pod) (cnpg_pg_replication_lag{namespace="activity-sync"})', 'lag {{pod}} (s)'],
      ],
    ),
    chart(
      {
        title: 'Age of the backups',
        description: 'Of the database and of the monitoring volumes; both are made each night.',
        runbook: 'platform.md#databasebackuptooold',
        width: 6,
      },
      's',
      [
        ['time() - (max(barman_cloud_cloudnative_pg_io_last_available_backup_timestamp) > 0)', 'database'],
        ['time() - (max by (schedule) (velero_backup_last_successful_timestamp) > 0)', '{{schedule}}'],
      ],
    ),
    table(
      {
        title: 'GitOps objects that are not ready',
        description: 'What the cluster could not take over from the repository.',
        runbook: 'platform.md#gitopsobjectnotready',
      },
      [
        'max by (customresource_kind, exported_namespace, name, ready) (gotk_resource_info{ready!="True",suspended!="true"})',
        '',
      ],
    ),
  ];
}
