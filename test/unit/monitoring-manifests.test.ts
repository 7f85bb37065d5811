import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { type Layer, type Resource, readLayers, readSettings } from '../../k8s/src/read-layers.ts';
import { findSchemaProblems } from '../../k8s/src/resource-models.ts';
import { VARIABLES } from '../../src/infra/config.ts';

const root = join(import.meta.dirname, '../..');
const settings = readSettings();
const layers = readLayers();
const all = layers.flatMap((layer) =>
  layer.resources.map((resource) => ({ layer, resource, name: `${resource.kind} ${resource.metadata.name}` })),
);
const find = (kind: string, name: string): Resource => {
  const found = all.find(({ resource }) => resource.kind === kind && resource.metadata.name === name);
  if (found === undefined) throw new Error(`There is no ${kind} ${name}`);
  return found.resource;
};
const values = (release: string) => find('HelmRelease', release).spec.values;

describe('every resource', () => {
  it.each(all)('$name fits its schema', async ({ resource }) => {
    expect(await findSchemaProblems(resource)).toEqual([]);
  });

  it('is there once', () => {
    const names = all.map(
      ({ resource }) => `${resource.kind} ${resource.metadata.namespace ?? ''}/${resource.metadata.name}`,
    );
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
  });

  it('is no secret: secrets are made by hand and referred to', () => {
    expect(all.filter(({ resource }) => resource.kind === 'Secret')).toEqual([]);
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
    HelmRelease: 'sources',
  };

  it.each(all.filter(({ resource }) => broughtBy[resource.kind]))(
    '$name comes after what defines its kind, so that a first apply works',
    ({ layer, resource }) => {
      expect(earlier(layer)).toContain(broughtBy[resource.kind]);
    },
  );

  it.each(all.filter(({ resource }) => resource.metadata.namespace && resource.metadata.namespace !== 'flux-system'))(
    '$name comes after its namespace',
    ({ layer, resource }) => {
      find('Namespace', resource.metadata.namespace);
      expect(earlier(layer)).toContain('namespaces');
    },
  );

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
  const releases = all.filter(({ resource }) => resource.kind === 'HelmRelease');

  it.each(releases)('$name is pinned, and its repository is declared', ({ resource }) => {
    expect(resource.spec.chart.spec.version).toMatch(/^v?\d+\.\d+\.\d+$/);
    find('HelmRepository', resource.spec.chart.spec.sourceRef.name);
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

  it('offer metrics and logs as data sources', () => {
    const { sidecar, additionalDataSources } = values('kube-prometheus-stack').grafana;
    expect(sidecar.datasources.url).toBe(`http://${settings.STACK_RELEASE_NAME}-prometheus:9090`);
    expect(additionalDataSources).toEqual([expect.objectContaining({ type: 'loki', url: 'http://loki:3100' })]);
  });

  it('are tuned: no overcommit alerts, no scraping of the network proxy', () => {
    const stack = values('kube-prometheus-stack');
    expect(stack.defaultRules.disabled).toEqual({ KubeMemoryOvercommit: true, KubeCPUOvercommit: true });
    expect(stack.kubeProxy.enabled).toBe(false);
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

  it('back up the volumes of the stack each night', () => {
    const { schedules } = values('velero');
    expect(schedules['monitoring-volumes'].template).toMatchObject({
      includedNamespaces: ['monitoring'],
      snapshotVolumes: true,
    });
    expect(find('ScheduledBackup', 'activity-sync-db-nightly').spec.cluster.name).toBe('activity-sync-db');
  });
});

describe('rules with the label release', () => {
  const notLogql = { key: 'rules.kind', operator: 'NotIn', values: ['logql'] };
  const stack = values('kube-prometheus-stack');

  it('load as metric rules unless they are log rules', () => {
    expect(find('HelmRelease', 'kube-prometheus-stack').spec.releaseName).toBe(settings.STACK_RELEASE_NAME);
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

  it('find the labels that the collectors set', () => {
    const pods: string = values('alloy').alloy.configMap.content;
    for (const label of ['namespace', 'pod', 'container', 'source'])
      expect(pods).toContain(
        `target_label  = "${label}"`.replace('target_label  = "source"', 'target_label = "source"'),
      );
    expect(values('alloy-events').alloy.configMap.content).toContain('source = "events"');
  });
});

describe('the service', () => {
  const workloads = ['activity-sync-web', 'activity-sync-worker'].map((name) => find('Deployment', name));
  const podSpecs = [...workloads, find('Job', 'activity-sync-migrate')].map(({ spec }) => spec.template.spec);

  it('runs without rights: no root, no writing, no capabilities, no token of the cluster', () => {
    for (const spec of podSpecs) {
      expect(spec.automountServiceAccountToken).toBe(false);
      expect(spec.securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } });
      const [container] = spec.containers;
      expect(container.name).toBe('activity-sync');
      expect(container.securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      });
      expect(container.resources).toMatchObject({
        requests: { cpu: expect.any(String), memory: expect.any(String) },
        limits: { memory: expect.any(String) },
      });
      expect(container.image).toBe(`${settings.APP_IMAGE}:${settings.APP_VERSION}`);
    }
  });

  it('sets only variables that the service knows', () => {
    const known = [...Object.keys(VARIABLES), 'NODE_OPTIONS'];
    const set = [
      ...Object.keys(find('ConfigMap', 'activity-sync').data),
      ...podSpecs.flatMap((spec) => spec.containers[0].env.map(({ name }: { name: string }) => name)),
    ];
    for (const name of set) expect(known).toContain(name);
  });

  it('gives every role to some Deployment', () => {
    const roles = workloads.flatMap(({ spec }) =>
      spec.template.spec.containers[0].env
        .find(({ name }: { name: string }) => name === 'SERVICE_ROLES')
        .value.split(','),
    );
    expect(roles.sort()).toEqual(['fetch', 'polling', 'thumbnail', 'web']);
  });

  it('asks the service itself whether it lives and is ready', () => {
    for (const { spec } of workloads) {
      const [container] = spec.template.spec.containers;
      expect(container.livenessProbe.httpGet).toEqual({ path: '/healthz', port: 'http' });
      expect(container.readinessProbe.httpGet).toEqual({ path: '/readyz', port: 'http' });
      expect(container.ports).toContainEqual({ name: 'http', containerPort: 3000 });
    }
  });

  it('leaves the number of replicas to the autoscaler', () => {
    for (const { spec, metadata } of workloads) {
      expect(spec).not.toHaveProperty('replicas');
      expect(find('HorizontalPodAutoscaler', metadata.name).spec.scaleTargetRef.name).toBe(metadata.name);
      expect(find('PodDisruptionBudget', metadata.name).spec.selector.matchLabels).toEqual(spec.selector.matchLabels);
    }
  });

  it('is scraped under the job name that the rules use', () => {
    const monitor = find('ServiceMonitor', 'activity-sync');
    expect(monitor.metadata.labels.release).toBe(settings.STACK_RELEASE_NAME);
    for (const name of ['activity-sync', 'activity-sync-worker']) {
      expect(find('Service', name).metadata.labels[monitor.spec.jobLabel]).toBe('activity-sync');
      expect(find('Service', name).metadata.labels).toMatchObject(monitor.spec.selector.matchLabels);
    }
  });

  it('does not show its metrics to the world', () => {
    const paths = find('Ingress', 'activity-sync').spec.rules[0].http.paths;
    expect(
      paths.filter(({ path, pathType }: { path: string; pathType: string }) => path === '/' && pathType === 'Prefix'),
    ).toEqual([]);
  });
});

describe('the image', () => {
  const dockerfile = readFileSync(join(root, 'Dockerfile'), 'utf8');

  it('runs as an ordinary user, with the start command and a health check of its own', () => {
    expect(dockerfile).toMatch(/^USER 1000:1000$/m);
    expect(dockerfile).toMatch(/^CMD \["src\/main.ts"\]$/m);
    expect(dockerfile).toMatch(/^HEALTHCHECK /m);
  });

  it('has the packages of the lockfile and no others, on the Node version that the tests use', () => {
    expect(dockerfile).toContain('npm ci --omit=dev --ignore-scripts');
    const { devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    expect(dockerfile).toContain(`ARG NODE_IMAGE=node:${devDependencies.node}-`);
  });
});

function filesOf(path: string): string[] {
  const folder = join(root, path);
  const names = readFileSync(join(folder, 'kustomization.yaml'), 'utf8').match(/^ {2}- (.+\.yaml)$/gm) ?? [];
  return names.map((name) => readFileSync(join(folder, name.slice(4)), 'utf8'));
}
