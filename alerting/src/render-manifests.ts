import { stringify } from 'yaml';
import type { RuleFile, RuleGroup } from './rule-files.ts';

const NOTICE = '# Written from alerting/rules by `npm run alerting`. Do not edit.\n';

/**
 * Renders the Kubernetes resources that carry the rules, keyed by file name.
 *
 * Metric rules become PrometheusRules for the operator. Log rules become the documented PrometheusRule, which the
 * operator leaves alone by its second label, and the same groups as a ConfigMap for the log store's sidecar.
 * `${…}` is filled in by Flux from the settings.
 */
export function renderManifests(files: RuleFile[]): Map<string, string> {
  const manifests = new Map<string, string>();
  for (const file of files) {
    const groups = file.groups.map(withFullRunbookUrls);
    const isLogql = file.language === 'logql';
    manifests.set(`${file.name}.yaml`, asYaml(prometheusRule(file.name, groups, isLogql)));
    if (isLogql) manifests.set(`${file.name}-configmap.yaml`, asYaml(lokiConfigMap(file.name, groups)));
  }
  manifests.set(
    'kustomization.yaml',
    asYaml({
      apiVersion: 'kustomize.config.k8s.io/v1beta1',
      kind: 'Kustomization',
      resources: [...manifests.keys()].sort(),
    }),
  );
  return manifests;
}

function prometheusRule(name: string, groups: RuleGroup[], isLogql: boolean) {
  return {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PrometheusRule',
    metadata: {
      name: `activity-sync-${name}`,
      namespace: 'monitoring',
      labels: { release: `\${STACK_RELEASE_NAME}`, ...(isLogql ? { 'rules.kind': 'logql' } : {}) },
    },
    spec: { groups },
  };
}

function lokiConfigMap(name: string, groups: RuleGroup[]) {
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: `activity-sync-${name}`, namespace: 'monitoring', labels: { loki_rule: '' } },
    data: { [`activity-sync-${name}.yaml`]: stringify({ groups }, { lineWidth: 0 }) },
  };
}

function withFullRunbookUrls(group: RuleGroup): RuleGroup {
  return {
    ...group,
    rules: group.rules.map((rule) =>
      rule.annotations?.runbook_url === undefined
        ? rule
        : {
            ...rule,
            annotations: { ...rule.annotations, runbook_url: `\${RUNBOOK_BASE_URL}/${rule.annotations.runbook_url}` },
          },
    ),
  };
}

function asYaml(resource: object): string {
  return NOTICE + stringify(resource, { lineWidth: 0, defaultStringType: 'PLAIN' });
}
