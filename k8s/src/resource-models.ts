import type { Resource } from './read-layers.ts';

/** Where the schema of a resource comes from; kinds without a published package have none. */
const PACKAGES: Record<string, string> = {
  v1: 'kubernetes-models',
  'apps/v1': 'kubernetes-models',
  'batch/v1': 'kubernetes-models',
  'autoscaling/v2': 'kubernetes-models',
  'policy/v1': 'kubernetes-models',
  'networking.k8s.io/v1': 'kubernetes-models',
  'kustomize.toolkit.fluxcd.io/v1': '@kubernetes-models/flux-cd',
  'helm.toolkit.fluxcd.io/v2': '@kubernetes-models/flux-cd',
  'source.toolkit.fluxcd.io/v1': '@kubernetes-models/flux-cd',
  'monitoring.coreos.com/v1': '@kubernetes-models/prometheus-operator',
  'postgresql.cnpg.io/v1': '@kubernetes-models/cloudnative-pg',
};

/** Kinds without a published schema; their checks say so. */
export const WITHOUT_SCHEMA = ['barmancloud.cnpg.io/v1 ObjectStore', 'cert-manager.io/v1 Certificate'];

/** The module that holds the model of a resource's kind, or undefined when there is none. */
export function modelModule({ apiVersion, kind }: Resource): string | undefined {
  if (WITHOUT_SCHEMA.includes(`${apiVersion} ${kind}`)) return undefined;
  const name = PACKAGES[apiVersion];
  if (name === undefined) throw new Error(`No schema is known for ${apiVersion} ${kind}`);
  return `${name}/${apiVersion}/${kind}`;
}

/** The errors of a resource by its kind's schema; empty when it is valid. Unknown keys are accepted here. */
export async function findSchemaProblems(resource: Resource): Promise<string[]> {
  const module = modelModule(resource);
  if (module === undefined) return [];
  const models = (await import(module)) as Record<string, new (data: Resource) => { validate(): void }>;
  const Model = models[resource.kind];
  if (Model === undefined) return [`${module} has no ${resource.kind}`];
  try {
    new Model(resource).validate();
    return [];
  } catch (error) {
    return [(error as Error).message];
  }
}

/** TypeScript that the compiler refuses when a resource has a key that its schema does not know. */
export function asTypedSource(resources: Resource[]): string {
  const imports: string[] = [];
  const checks: string[] = [];
  for (const [index, resource] of resources.entries()) {
    const module = modelModule(resource);
    if (module === undefined) continue;
    imports.push(`import { ${resource.kind} as Model${index} } from '${module}';`);
    const { apiVersion: _, kind: __, ...fields } = resource;
    checks.push(`new Model${index}(${JSON.stringify(fields, null, 1)});`);
  }
  return [...imports, ...checks].join('\n');
}
