import type { Registry } from 'prom-client';
import type { MetricSelector } from './check-promql.ts';

/** Label names that a metric can carry, by metric name. */
export type MetricCatalogue = Map<string, Set<string>>;

/** What each scrape adds. */
const TARGET_LABELS = ['job', 'instance', 'namespace', 'pod', 'service', 'endpoint', 'container', 'node'];

/** Metrics of others that our rules and dashboards use, by the program that exposes them. */
const FOREIGN_METRICS: Record<string, string[]> = {
  up: [],
  ALERTS: ['alertname', 'alertstate', 'severity', 'component'],
  // kube-state-metrics
  kube_pod_container_status_restarts_total: [],
  kube_pod_container_status_last_terminated_reason: ['reason'],
  kube_pod_container_status_waiting_reason: ['reason'],
  kube_pod_status_phase: ['phase'],
  kube_pod_container_info: ['image'],
  kube_deployment_status_replicas_available: ['deployment'],
  kube_deployment_spec_replicas: ['deployment'],
  kube_pod_container_resource_limits: ['resource', 'unit'],
  kube_pod_container_resource_requests: ['resource', 'unit'],
  // kube-state-metrics with our custom resource configuration
  gotk_resource_info: ['customresource_kind', 'exported_namespace', 'name', 'ready', 'suspended', 'revision'],
  // kubelet and cAdvisor
  kubelet_volume_stats_available_bytes: ['persistentvolumeclaim'],
  kubelet_volume_stats_capacity_bytes: ['persistentvolumeclaim'],
  container_memory_working_set_bytes: ['image'],
  container_cpu_usage_seconds_total: ['image'],
  // node exporter
  node_memory_MemAvailable_bytes: [],
  node_memory_MemTotal_bytes: [],
  node_cpu_seconds_total: ['mode', 'cpu'],
  node_filesystem_avail_bytes: ['mountpoint', 'fstype'],
  node_filesystem_size_bytes: ['mountpoint', 'fstype'],
  // CloudNativePG and its backup plugin
  cnpg_collector_up: ['cluster'],
  cnpg_pg_replication_lag: [],
  cnpg_pg_replication_streaming_replicas: [],
  cnpg_pg_database_xid_age: ['datname'],
  cnpg_backends_max_tx_duration_seconds: ['datname', 'usename', 'application_name'],
  cnpg_pg_stat_archiver_last_failed_time: [],
  cnpg_pg_stat_archiver_last_archived_time: [],
  barman_cloud_cloudnative_pg_io_last_available_backup_timestamp: [],
  // cert-manager; the namespace of the Certificate is exported_namespace, since the target has one of its own
  certmanager_certificate_expiration_timestamp_seconds: ['exported_namespace', 'name'],
  // Velero
  velero_backup_last_successful_timestamp: ['schedule'],
  // Alertmanager
  alertmanager_notifications_failed_total: ['integration', 'reason'],
  alertmanager_notifications_total: ['integration'],
  alertmanager_config_last_reload_successful: [],
  // Prometheus
  prometheus_notifications_errors_total: ['alertmanager'],
  prometheus_notifications_alertmanagers_discovered: [],
  prometheus_rule_evaluation_failures_total: ['rule_group'],
  prometheus_tsdb_head_series: [],
  prometheus_tsdb_head_samples_appended_total: ['type'],
  // Loki
  loki_prometheus_rule_group_rules: ['rule_group'],
  loki_prometheus_rule_evaluation_failures_total: ['rule_group'],
  loki_distributor_lines_received_total: ['tenant'],
  loki_distributor_bytes_received_total: ['tenant'],
  loki_request_duration_seconds_count: ['route', 'status_code', 'method'],
  loki_panic_total: [],
  // Loki's canary
  loki_canary_entries_total: [],
  loki_canary_missing_entries_total: [],
  // Alloy
  loki_write_dropped_entries_total: ['host', 'reason'],
  loki_write_sent_entries_total: ['host'],
};

/** The values that a label of a metric can have, by both names, if the service knows them all from its start. */
export type LabelValues = Map<string, Set<string>>;

/** @param registry the service's own; its counters begin with every value that they can have */
export async function knownLabelValues(registry: Registry): Promise<LabelValues> {
  const known: LabelValues = new Map();
  for (const { name, values } of await registry.getMetricsAsJSON()) {
    if (!name.startsWith('activity_sync_')) continue;
    for (const { labels } of values) {
      for (const [label, value] of Object.entries(labels)) {
        const key = `${name} ${label}`;
        known.set(key, (known.get(key) ?? new Set()).add(String(value)));
      }
    }
  }
  return known;
}

/** The values that selectors name and no metric of the service can have. */
export function findUnknownValues(selectors: readonly MetricSelector[], known: LabelValues): string[] {
  return selectors.flatMap(({ metric, values }) =>
    values
      .filter(({ label, value }) => known.get(`${metric} ${label}`)?.has(value) === false)
      .map(({ label, value }) => `${metric}{${label}="${value}"}`),
  );
}

/**
 * Every metric that a rule or a panel may name.
 * @param registry the service's own registry
 * @param recorded names that our recording rules write
 */
export function metricCatalogue(registry: Registry, recorded: string[]): MetricCatalogue {
  const catalogue: MetricCatalogue = new Map();
  const add = (name: string, labels: readonly string[]) => catalogue.set(name, new Set([...TARGET_LABELS, ...labels]));
  for (const [name, labels] of Object.entries(FOREIGN_METRICS)) add(name, labels);
  for (const name of recorded) add(name, []);
  for (const metric of registry.getMetricsAsArray()) {
    const { name, labelNames } = metric as unknown as { name: string; labelNames?: string[] };
    add(name, labelNames ?? []);
    for (const suffix of ['_bucket', '_sum', '_count']) add(name + suffix, [...(labelNames ?? []), 'le']);
  }
  return catalogue;
}
