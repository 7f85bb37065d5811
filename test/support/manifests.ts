import { type Resource, readLayers, readSettings } from '../../k8s/src/read-layers.ts';

/** The manifests under k8s/ as the tests read them: settings, layers, and every resource with its layer and name. */
export const settings = readSettings();
export const layers = readLayers(settings);
export const resources = layers.flatMap((layer) =>
  layer.resources.map((resource) => ({ layer, resource, name: `${resource.kind} ${resource.metadata.name}` })),
);

/** @throws when there is no such resource */
export function findResource(kind: string, name: string): Resource {
  const found = resources.find(({ resource }) => resource.kind === kind && resource.metadata.name === name);
  if (found === undefined) throw new Error(`There is no ${kind} ${name}`);
  return found.resource;
}
