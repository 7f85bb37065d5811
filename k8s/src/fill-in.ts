import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { fillIn, readLayers, readSettings } from './read-layers.ts';

/**
 * Writes what a cluster without Flux needs into a new folder: k8s/kustomization.yaml and its layers with the settings
 * filled in, and the values of each chart. Prints the commands of kubectl and Helm that apply them, in their order.
 */

const ROOT = join(import.meta.dirname, '../..');
const GRAFANAS = 'dashboards'; // ${…} in them is not ours

const settings = readSettings();
const folder = mkdtempSync(join(tmpdir(), 'activity-sync-k8s-'));
const { resources: layers } = parse(readFileSync(join(ROOT, 'k8s/kustomization.yaml'), 'utf8')) as {
  resources: string[];
};
mkdirSync(join(folder, 'k8s'));
cpSync(join(ROOT, 'k8s/kustomization.yaml'), join(folder, 'k8s/kustomization.yaml'));
for (const layer of layers.map((path) => join('k8s', path))) {
  mkdirSync(join(folder, layer), { recursive: true });
  for (const entry of readdirSync(join(ROOT, layer), { withFileTypes: true }).filter((one) => one.isFile())) {
    const text = readFileSync(join(ROOT, layer, entry.name), 'utf8');
    writeFileSync(join(folder, layer, entry.name), layer === GRAFANAS ? text : fillIn(text, settings));
  }
}

const resources = readLayers(settings).flatMap((layer) => layer.resources);
const repositories = new Map(
  resources.filter(({ kind }) => kind === 'HelmRepository').map(({ metadata, spec }) => [metadata.name, spec.url]),
);
const installCharts = resources
  .filter(({ kind }) => kind === 'HelmRelease')
  .map(({ metadata, spec }) => {
    const file = join(folder, `${metadata.name}.values.yaml`);
    writeFileSync(file, stringify(spec.values ?? {}, { version: '1.1' }));
    const { chart, version, sourceRef } = spec.chart.spec;
    const source = `${chart} --repo ${repositories.get(sourceRef.name)} --version ${version}`;
    return `helm upgrade --install ${spec.releaseName ?? metadata.name} ${source} --namespace ${metadata.namespace} --values ${file} --wait --timeout 15m`;
  });
const commands = [
  `kubectl apply --server-side -k ${folder}/k8s/namespaces`,
  ...installCharts,
  `kubectl apply --server-side -k ${folder}/k8s`,
];
process.stdout.write(`${commands.join('\n')}\n`);
