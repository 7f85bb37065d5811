import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse, parseAllDocuments } from 'yaml';

const ROOT = join(import.meta.dirname, '../..');

// biome-ignore lint/suspicious/noExplicitAny: a resource is whatever its manifest says; its schema is checked elsewhere
export type Resource = { apiVersion: string; kind: string; metadata: any; [field: string]: any };

/** One Flux Kustomization and what it applies, with the settings filled in as Flux does it. */
export interface Layer {
  name: string;
  path: string;
  dependsOn: string[];
  resources: Resource[];
}

/** The settings of the cluster, by name. */
export function readSettings(): Record<string, string> {
  return parse(readFileSync(join(ROOT, 'k8s/flux/settings.yaml'), 'utf8')).data;
}

/** Every layer, in the order of k8s/flux/layers.yaml. Generated ConfigMaps are left to kubectl. */
export function readLayers(settings = readSettings()): Layer[] {
  return readResources(join(ROOT, 'k8s/flux/layers.yaml')).map(({ metadata, spec }) => {
    const folder = join(ROOT, spec.path);
    const { resources = [] } = parse(readFileSync(join(folder, 'kustomization.yaml'), 'utf8'));
    return {
      name: metadata.name,
      path: spec.path,
      dependsOn: (spec.dependsOn ?? []).map((dependency: { name: string }) => dependency.name),
      resources: resources.flatMap((file: string) =>
        readResources(join(folder, file), spec.postBuild === undefined ? undefined : settings),
      ),
    };
  });
}

/** Fills in `${NAME}` as Flux does. @throws when a name is not a setting */
export function fillIn(text: string, settings: Record<string, string>): string {
  return text.replaceAll(/\$\{(\w+)\}/g, (_, name: string) => {
    const value = settings[name];
    if (value === undefined) throw new Error(`\${${name}} is no setting of k8s/flux/settings.yaml`);
    return value;
  });
}

/** The configuration that the stack gives to its Alertmanager. */
export function readAlertmanagerConfig(settings = readSettings()): object {
  const release = readLayers(settings)
    .flatMap(({ resources }) => resources)
    .find(({ kind, metadata }) => kind === 'HelmRelease' && metadata.name === 'kube-prometheus-stack');
  return release?.spec.values.alertmanager.config;
}

function readResources(file: string, settings?: Record<string, string>): Resource[] {
  const text = readFileSync(file, 'utf8');
  return parseAllDocuments(settings === undefined ? text : fillIn(text, settings)).map((document) => {
    const [error] = document.errors;
    if (error) throw new Error(`${file}: ${error.message}`);
    return document.toJS() as Resource;
  });
}
