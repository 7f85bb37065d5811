import { chart, table } from '../panels.ts';

export function platform() {
  return [
    chart(
      {
        title: 'Pods that are not running',
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
        'sum by (namespace, container) (increase(kube_pod_container_status_restarts_total[$__interval])) > 0',
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
      [['max by (pod) (container_memory_working_set_bytes{namespace=~"$namespace",container!=""})', '{{pod}}']],
    ),
    chart(
      {
        title: 'CPU of the service',
        description: 'Use of each pod against its request. Above 1 it uses spare CPU of its node: there is no limit.',
        runbook: 'process.md#activitysynceventlooplag',
      },
      'percentunit',
      [
        [
          'sum by (pod) (rate(container_cpu_usage_seconds_total{namespace=~"$namespace",container="activity-sync"}[$__rate_interval])) / sum by (pod) (kube_pod_container_resource_requests{namespace=~"$namespace",container="activity-sync",resource="cpu"})',
          '{{pod}}',
        ],
      ],
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

export function database() {
  return [
    chart(
      {
        title: 'Database instances',
        description: 'Running instances, and the lag of replicas.',
        runbook: 'platform.md#databaseinstancedown',
        width: 6,
      },
      'none',
      [
        ['sum(cnpg_collector_up{namespace=~"$namespace"})', 'instances'],
        ['max by (pod) (cnpg_pg_replication_lag{namespace=~"$namespace"})', 'lag {{pod}} (s)'],
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
        [
          'time() - (max by (namespace) (barman_cloud_cloudnative_pg_io_last_available_backup_timestamp{namespace=~"$namespace"}) > 0)',
          'database',
        ],
        ['time() - (max by (schedule) (velero_backup_last_successful_timestamp) > 0)', '{{schedule}}'],
      ],
    ),
    table(
      {
        title: 'GitOps objects that are not ready',
        description: 'Objects that could not be reconciled with the repository.',
        runbook: 'platform.md#gitopsobjectnotready',
      },
      [
        'max by (customresource_kind, exported_namespace, name, ready) (gotk_resource_info{ready!="True",suspended!="true"})',
        '',
      ],
    ),
  ];
}
