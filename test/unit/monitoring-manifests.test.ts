import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { metricSelectors } from '../../alerting/src/check-promql.ts';
import { alertsOf, readRuleFiles } from '../../alerting/src/rule-files.ts';
import type { Layer } from '../../k8s/src/read-layers.ts';
import { findSchemaProblems } from '../../k8s/src/resource-models.ts';
import { findResource, layers, resources, settings } from '../support/manifests.ts';

const values = (release: string) => findResource('HelmRelease', release).spec.values;

describe('every resource', () => {
  it.each(resources)('$name fits its schema', async ({ resource }) => {
    expect(await findSchemaProblems(resource)).toEqual([]);
  });

  it('exists once', () => {
    const names = resources.map(
      ({ resource }) => `${resource.kind} ${resource.metadata.namespace ?? ''}/${resource.metadata.name}`,
    );
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
  });

  it('is no secret: secrets are created manually and referred to', () => {
    expect(resources.filter(({ resource }) => resource.kind === 'Secret')).toEqual([]);
  });
});

describe('the layers', () => {
  const byName = new Map(layers.map((layer) => [layer.name, layer]));
  const earlier = (layer: Layer, seen = new Set<string>()): Set<string> => {
    for (const name of layer.dependsOn) {
      const dependency = byName.get(name);
      if (dependency === undefined) throw new Error(`${layer.name} depends on ${name}, which does not exist`);
      if (seen.has(name)) continue;
      seen.add(name);
      earlier(dependency, seen);
    }
    return seen;
  };

  it('do not wait for each other in a circle', () => {
    for (const layer of layers) expect(earlier(layer).has(layer.name)).toBe(false);
  });

  const broughtBy: Record<string, string> = {
    PrometheusRule: 'monitoring-stack',
    ServiceMonitor: 'monitoring-stack',
    PodMonitor: 'monitoring-stack',
    Cluster: 'operators',
    ScheduledBackup: 'operators',
    ObjectStore: 'operators',
    Certificate: 'operators',
    HelmRelease: 'sources',
  };

  it.each(resources.filter(({ resource }) => broughtBy[resource.kind]))(
    '$name comes after what defines its kind, so that a first apply works',
    ({ layer, resource }) => {
      expect(earlier(layer)).toContain(broughtBy[resource.kind]);
    },
  );

  it.each(
    resources.filter(({ resource }) => resource.metadata.namespace && resource.metadata.namespace !== 'flux-system'),
  )('$name comes after its namespace', ({ layer, resource }) => {
    findResource('Namespace', resource.metadata.namespace);
    expect(earlier(layer)).toContain('namespaces');
  });

  it('start the service only after the migration, and the migration after the database', () => {
    expect(byName.get('app')?.dependsOn).toContain('migration');
    expect(byName.get('migration')?.dependsOn).toContain('database');
  });

  it('use every setting', () => {
    const texts = layers.flatMap(({ path }) => filesOf(path)).join('\n');
    for (const name of Object.keys(settings)) expect(texts).toContain(`\${${name}}`);
  });
});

describe('the charts', () => {
  const releases = resources.filter(({ resource }) => resource.kind === 'HelmRelease');

  it.each(releases)('$name is pinned, and its repository is declared', ({ resource }) => {
    expect(resource.spec.chart.spec.version).toMatch(/^v?\d+\.\d+\.\d+$/);
    expect(resource.spec.timeout).toBe('15m');
    findResource('HelmRepository', resource.spec.chart.spec.sourceRef.name);
  });

  it('keep metrics, alerts, dashboards, logs and monitors on volumes of the configured class', () => {
    const stack = values('kube-prometheus-stack');
    const classes = [
      stack.prometheus.prometheusSpec.storageSpec.volumeClaimTemplate.spec.storageClassName,
      stack.alertmanager.alertmanagerSpec.storage.volumeClaimTemplate.spec.storageClassName,
      stack.grafana.persistence.storageClassName,
      values('loki').singleBinary.persistence.storageClass,
      values('uptime-kuma').volume.storageClassName,
    ];
    expect(classes).toEqual(Array(5).fill(settings.STORAGE_CLASS));
    expect(stack.grafana.persistence.enabled).toBe(true);
  });

  it('replace pods that share a volume only after the old one has ended', () => {
    expect(values('kube-prometheus-stack').grafana.deploymentStrategy.type).toBe('Recreate');
    expect(values('uptime-kuma').strategy.type).toBe('Recreate');
  });

  it('show the dashboard tool and the uptime monitor under their hosts with the wildcard certificate', () => {
    const grafana = values('kube-prometheus-stack').grafana.ingress;
    const uptime = values('uptime-kuma').ingress;
    expect(grafana).toMatchObject({
      enabled: true,
      ingressClassName: settings.INGRESS_CLASS,
      hosts: [settings.GRAFANA_HOST],
    });
    expect(uptime).toMatchObject({
      enabled: true,
      className: settings.INGRESS_CLASS,
      hosts: [{ host: settings.UPTIME_HOST }],
    });
    for (const tls of [grafana.tls, uptime.tls]) expect(tls[0].secretName).toBe(settings.WILDCARD_TLS_SECRET);
  });

  it('find the wildcard certificate in each namespace that has an ingress', () => {
    const certificates = resources.filter(({ resource }) => resource.kind === 'Certificate');
    expect(certificates.map(({ resource }) => resource.metadata.namespace)).toEqual(['monitoring', 'activity-sync']);
    for (const { resource } of certificates) {
      expect(resource.spec.secretName).toBe(settings.WILDCARD_TLS_SECRET);
      expect(resource.spec.dnsNames).toEqual([`*.${settings.WILDCARD_DOMAIN}`]);
    }
    for (const host of [settings.APP_HOST, settings.GRAFANA_HOST, settings.UPTIME_HOST])
      expect(host).toMatch(/^[^.]+\./);
  });

  it('drop the oldest metrics before their volume is full', () => {
    const { retentionSize, storageSpec } = values('kube-prometheus-stack').prometheus.prometheusSpec;
    const volume = Number.parseInt(storageSpec.volumeClaimTemplate.spec.resources.requests.storage, 10) * 1.074; // GiB
    expect(Number.parseInt(retentionSize, 10) / volume).toBeLessThanOrEqual(0.8);
  });

  it('read the logs of static pods too, whose folders have the hash of their file in place of the uid', () => {
    const content: string = values('alloy').alloy.configMap.content;
    expect(content).toContain('__meta_kubernetes_pod_annotation_kubernetes_io_config_hash');
  });

  it('offer metrics and logs as data sources', () => {
    const { sidecar, additionalDataSources } = values('kube-prometheus-stack').grafana;
    expect(sidecar.datasources.url).toBe(`http://${settings.STACK_RELEASE_NAME}-prometheus:9090`);
    expect(additionalDataSources).toEqual([expect.objectContaining({ type: 'loki', url: 'http://loki:3100' })]);
  });

  it('are tuned: no overcommit alerts, no scraping of the network proxy', () => {
    const stack = values('kube-prometheus-stack');
    expect(stack.defaultRules.disabled).toMatchObject({ KubeMemoryOvercommit: true, KubeCPUOvercommit: true });
    expect(stack.kubeProxy.enabled).toBe(false);
  });

  it('repeat none of our own rules', () => {
    const ours: Record<string, string> = {
      KubePodCrashLooping: 'PodCrashLooping',
      KubePersistentVolumeFillingUp: 'VolumeFilling',
      AlertmanagerFailedToSendAlerts: 'AlertDeliveryFailing',
      AlertmanagerClusterFailedToSendAlerts: 'AlertDeliveryFailing',
      AlertmanagerFailedReload: 'AlertmanagerConfigurationRefused',
      PrometheusRuleFailures: 'MetricRulesFailing',
      PrometheusNotConnectedToAlertmanagers: 'AlertSendingFailing',
      PrometheusErrorSendingAlertsToSomeAlertmanagers: 'AlertSendingFailing',
      PrometheusErrorSendingAlertsToAnyAlertmanager: 'AlertSendingFailing',
    };
    const { disabled } = values('kube-prometheus-stack').defaultRules;
    const { KubeMemoryOvercommit: _, KubeCPUOvercommit: __, ...doubles } = disabled;
    expect(Object.keys(doubles).sort()).toEqual(Object.keys(ours).sort());
    const names = alertsOf(readRuleFiles()).map(({ alert }) => alert);
    for (const alert of Object.values(ours)) expect(names).toContain(alert);
  });

  it('run one log store with caches that fit, and one collector on each node', () => {
    const loki = values('loki');
    expect(loki.singleBinary.replicas).toBe(1);
    expect([loki.write.replicas, loki.read.replicas, loki.backend.replicas]).toEqual([0, 0, 0]);
    expect(loki.chunksCache.allocatedMemory).toBe(256);
    expect(loki.resultsCache.allocatedMemory).toBe(128);
    expect(values('alloy').controller.type).toBe('daemonset');
    expect(values('alloy-events').controller).toEqual({ type: 'deployment', replicas: 1 });
  });

  it('keep each commit of the database on two machines, and more than a day of WAL', () => {
    const { instances, walStorage, postgresql, affinity, ...spec } = findResource('Cluster', 'activity-sync-db').spec;
    expect(instances).toBe(3);
    expect(affinity.podAntiAffinityType).toBe('required');
    expect(postgresql.synchronous).toEqual({ method: 'any', number: 1, dataDurability: 'required' });
    expect(spec).not.toHaveProperty('minSyncReplicas');
    expect(walStorage.size).toBe('20Gi');
  });

  it('back up the volumes of the stack each night', () => {
    const { schedules } = values('velero');
    expect(schedules['monitoring-volumes'].template).toMatchObject({
      includedNamespaces: ['monitoring'],
      snapshotVolumes: true,
      snapshotMoveData: true,
    });
    expect(values('velero').deployNodeAgent).toBe(true);
    expect(findResource('ScheduledBackup', 'activity-sync-db-nightly').spec.cluster.name).toBe('activity-sync-db');
  });
});

describe('rules with the label release', () => {
  const notLogql = { key: 'rules.kind', operator: 'NotIn', values: ['logql'] };
  const stack = values('kube-prometheus-stack');

  it('load as metric rules unless they are log rules', () => {
    expect(findResource('HelmRelease', 'kube-prometheus-stack').spec.releaseName).toBe(settings.STACK_RELEASE_NAME);
    expect(stack.prometheus.prometheusSpec.ruleSelector).toEqual({
      matchLabels: { release: settings.STACK_RELEASE_NAME },
      matchExpressions: [notLogql],
    });
    expect(stack.prometheusOperator.admissionWebhooks.objectSelector).toEqual({ matchExpressions: [notLogql] });
  });

  it('load as log rules from the folder that the log store reads', () => {
    const { loki, sidecar } = values('loki');
    expect(loki.rulerConfig.storage).toEqual({ type: 'local', local: { directory: '/rules' } });
    expect(sidecar.rules).toMatchObject({ enabled: true, label: 'loki_rule', folder: '/rules/fake' });
    expect(loki.rulerConfig.alertmanager_url).toBe(`http://${settings.STACK_RELEASE_NAME}-alertmanager:9093`);
  });

  it('watch what the collector of each node sends, and nothing that gets to the log store in another way', () => {
    const [stopped] = alertsOf(readRuleFiles()).filter(({ alert }) => alert === 'LogLinesStopped');
    const selectors = metricSelectors(stopped?.expr ?? '');
    // Without another name the chart names the Service after its release, and Prometheus the job after the Service.
    const { metadata, spec } = findResource('HelmRelease', 'alloy');
    expect([spec.releaseName, spec.values.fullnameOverride, spec.values.nameOverride]).toEqual(
      Array(3).fill(undefined),
    );
    expect(selectors).toEqual([
      expect.objectContaining({
        metric: 'loki_write_sent_entries_total',
        values: [{ label: 'job', value: metadata.name }],
      }),
    ]);
    expect(values('loki').lokiCanary).toEqual({ enabled: true, push: false });
  });

  it('know the database instances by the job that Prometheus names after their monitor', () => {
    const { namespace, name } = findResource('PodMonitor', 'activity-sync-db').metadata;
    const [down] = alertsOf(readRuleFiles()).filter(({ alert }) => alert === 'DatabaseInstanceDown');
    const jobs = [...(down?.expr ?? '').matchAll(/job="([^"]*)"/g)].map(([, job]) => job);
    expect(jobs).toEqual([`${namespace}/${name}`]);
  });

  it('find the labels that the collectors set', () => {
    const pods: string = values('alloy').alloy.configMap.content;
    for (const label of ['namespace', 'pod', 'container', 'source'])
      expect(pods).toContain(
        `target_label  = "${label}"`.replace('target_label  = "source"', 'target_label = "source"'),
      );
    expect(values('alloy-events').alloy.configMap.content).toContain('source = "events"');
  });
});

function filesOf(path: string): string[] {
  const folder = join(import.meta.dirname, '../..', path);
  const names = readFileSync(join(folder, 'kustomization.yaml'), 'utf8').match(/^ {2}- (.+\.yaml)$/gm) ?? [];
  return names.map((name) => readFileSync(join(folder, name.slice(4)), 'utf8'));
}
