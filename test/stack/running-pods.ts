import type { Resource } from '../../k8s/src/read-layers.ts';
import { layers } from '../support/manifests.ts';
import type { Cluster } from './cluster.ts';

/** A pod as a node and the controllers would have it running: it has an address and backs its Services. */
export interface RunningPod {
  name: string;
  namespace: string;
  labels: Record<string, string>;
  /** The name of its port with metrics. */
  port: string;
  number: number;
  ip: string;
}

const OTHERS: Omit<RunningPod, 'ip'>[] = [
  {
    name: 'activity-sync-db-1',
    namespace: 'activity-sync',
    labels: { 'cnpg.io/cluster': 'activity-sync-db' },
    port: 'metrics',
    number: 9187,
  },
  {
    name: 'velero-1',
    namespace: 'velero',
    labels: { 'app.kubernetes.io/name': 'velero' },
    port: 'http-monitoring',
    number: 8085,
  },
  ...['helm-controller', 'kustomize-controller', 'source-controller'].map((app) => ({
    name: `${app}-1`,
    namespace: 'flux-system',
    labels: { app },
    port: 'http-prom',
    number: 8080,
  })),
  {
    name: 'alertmanager-monitoring-alertmanager-0',
    namespace: 'monitoring',
    labels: { alertmanager: 'monitoring-alertmanager' },
    port: 'http-web',
    number: 9093,
  },
];

/** The pods that a healthy cluster runs and that Prometheus has to find, with the labels and ports of their charts. */
export function runningPods(): RunningPod[] {
  const own = layers
    .flatMap(({ resources }) => resources)
    .filter(({ kind }) => kind === 'Deployment')
    .map(({ metadata, spec }) => ({
      name: `${metadata.name}-1`,
      namespace: metadata.namespace,
      labels: spec.template.metadata.labels,
      port: spec.template.spec.containers[0].ports[0].name,
      number: spec.template.spec.containers[0].ports[0].containerPort,
    }));
  return [...own, ...OTHERS].map((pod, index) => ({ ...pod, ip: `10.42.0.${index + 1}` }));
}

/** Makes pods run, as a kubelet says it, and writes the endpoints of the Services that select them. */
export async function runPods(cluster: Cluster, pods: RunningPod[], services: Resource[]): Promise<void> {
  await cluster.apply(pods.map(podObject));
  for (const pod of pods) {
    const status = {
      phase: 'Running',
      podIP: pod.ip,
      podIPs: [{ ip: pod.ip }],
      conditions: [{ type: 'Ready', status: 'True' }],
    };
    const args = ['patch', 'pod', pod.name, '-n', pod.namespace, '--subresource=status', '--type=merge', '-p'];
    const answer = await cluster.kubectl([...args, JSON.stringify({ status })]);
    if (answer.exitCode !== 0) throw new Error(answer.stderr);
  }
  await cluster.apply(services.map((service) => endpointsOf(service, pods)));
}

function podObject({ name, namespace, labels, port, number }: RunningPod) {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace, labels },
    spec: {
      securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [
        {
          name: 'main',
          image: 'none',
          ports: [{ name: port, containerPort: number }],
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
        },
      ],
    },
  };
}

function endpointsOf({ metadata, spec }: Resource, pods: RunningPod[]) {
  const selected = pods.filter(
    ({ namespace, labels }) =>
      namespace === metadata.namespace && Object.entries(spec.selector).every(([key, value]) => labels[key] === value),
  );
  return {
    apiVersion: 'v1',
    kind: 'Endpoints',
    metadata: { name: metadata.name, namespace: metadata.namespace, labels: metadata.labels },
    subsets: selected.map(({ name, namespace, ip, number }) => ({
      addresses: [{ ip, targetRef: { kind: 'Pod', name, namespace } }],
      ports: [{ name: spec.ports[0].name, port: number, protocol: 'TCP' }],
    })),
  };
}
