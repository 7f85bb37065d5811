import { findResource, settings } from '../support/manifests.ts';

/**
 * What chart kube-prometheus-stack 88.5.3 renders from our values, as far as the checks need it. Where a field is the
 * chart's own, it is set here; the rest is read from k8s/monitoring/stack/kube-prometheus-stack.yaml.
 */

const { values } = findResource('HelmRelease', 'kube-prometheus-stack').spec;
const RELEASE = settings.STACK_RELEASE_NAME as string;
const NAMESPACE = 'monitoring';
const ofRelease = { matchLabels: { release: RELEASE } };

/** The Prometheus object. */
export function renderPrometheus(): object {
  const { storageSpec: storage, ...spec } = values.prometheus.prometheusSpec;
  return {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'Prometheus',
    metadata: { name: `${RELEASE}-prometheus`, namespace: NAMESPACE },
    spec: {
      version: 'v3.14.0-distroless',
      replicas: 1,
      serviceAccountName: `${RELEASE}-prometheus`,
      alerting: {
        alertmanagers: [
          {
            namespace: NAMESPACE,
            name: `${RELEASE}-alertmanager`,
            port: 'http-web',
            pathPrefix: '/',
            apiVersion: 'v2',
          },
        ],
      },
      serviceMonitorSelector: ofRelease,
      serviceMonitorNamespaceSelector: {},
      podMonitorSelector: ofRelease,
      podMonitorNamespaceSelector: {},
      probeSelector: ofRelease,
      probeNamespaceSelector: {},
      scrapeConfigSelector: ofRelease,
      scrapeConfigNamespaceSelector: {},
      ruleNamespaceSelector: {},
      ...spec,
      storage,
    },
  };
}

/** The Alertmanager object, the secret with its configuration, and its Service. */
export function renderAlertmanager(): object[] {
  const name = `${RELEASE}-alertmanager`;
  const labels = { app: 'kube-prometheus-stack-alertmanager', release: RELEASE };
  return [
    {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: `alertmanager-${name}`, namespace: NAMESPACE },
      stringData: { 'alertmanager.yaml': JSON.stringify(values.alertmanager.config) },
    },
    {
      apiVersion: 'monitoring.coreos.com/v1',
      kind: 'Alertmanager',
      metadata: { name, namespace: NAMESPACE, labels },
      spec: {
        version: 'v0.34.0',
        replicas: 1,
        serviceAccountName: name,
        alertmanagerConfigSelector: {},
        alertmanagerConfigNamespaceSelector: {},
        ...values.alertmanager.alertmanagerSpec,
      },
    },
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name, namespace: NAMESPACE, labels },
      spec: { selector: { alertmanager: name }, ports: [{ name: 'http-web', port: 9093 }] },
    },
  ];
}

/** The configurations of the admission webhook, which is asked at `url` in place of the chart's Service. */
export function renderWebhooks(url: string, caBundle: string): object[] {
  const webhook = (path: string) => ({
    admissionReviewVersions: ['v1', 'v1beta1'],
    clientConfig: { url: `${url}/admission-prometheusrules/${path}`, caBundle },
    // The chart's is Ignore: with the webhook down every rule would pass, and so would these checks.
    failurePolicy: 'Fail',
    name: `prometheusrule${path}.monitoring.coreos.com`,
    objectSelector: values.prometheusOperator.admissionWebhooks.objectSelector,
    rules: [
      {
        apiGroups: ['monitoring.coreos.com'],
        apiVersions: ['*'],
        operations: ['CREATE', 'UPDATE'],
        resources: ['prometheusrules'],
      },
    ],
    sideEffects: 'None',
    timeoutSeconds: 10,
  });
  const configuration = (kind: string, path: string) => ({
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind,
    metadata: { name: `${RELEASE}-admission` },
    webhooks: [webhook(path)],
  });
  return [
    configuration('ValidatingWebhookConfiguration', 'validate'),
    configuration('MutatingWebhookConfiguration', 'mutate'),
  ];
}
