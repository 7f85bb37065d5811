import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { parseAllDocuments } from 'yaml';
import { findProgram } from '../../alerting/src/find-program.ts';
import { fillIn, type Resource, readLayers, readSettings } from '../../k8s/src/read-layers.ts';
import { asTypedSource } from '../../k8s/src/resource-models.ts';

const root = join(import.meta.dirname, '../..');
const kubectl = findProgram('kubectl', 'kubernetes-client', 'that every layer renders with kubectl kustomize');
const layers = readLayers();

describe('kubectl', () => {
  it.each([...layers, { name: 'flux', path: './k8s/flux', resources: undefined }])(
    'renders the layer $name',
    ({ path, resources }) => {
      if (!kubectl) return;
      const rendered = execFileSync(kubectl, ['kustomize', join(root, path)]).toString();
      const found = parseAllDocuments(path === './dashboards' ? rendered : fillIn(rendered, readSettings())).map(
        (document) => document.toJS() as Resource,
      );
      expect(found.length).toBeGreaterThan(0);
      if (resources && path !== './dashboards') {
        const key = ({ kind, metadata }: Resource) => `${kind} ${metadata.namespace}/${metadata.name}`;
        expect(new Map(found.map((resource) => [key(resource), resource]))).toEqual(
          new Map(resources.map((resource) => [key(resource), resource])),
        );
      }
    },
  );

  it('renders the dashboards as ConfigMaps that the sidecar takes and Flux leaves alone', () => {
    if (!kubectl) return;
    const maps = parseAllDocuments(execFileSync(kubectl, ['kustomize', join(root, 'dashboards')]).toString()).map((d) =>
      d.toJS(),
    );
    expect(maps.length).toBe(2);
    for (const { metadata, data } of maps) {
      expect(metadata).toMatchObject({
        namespace: 'monitoring',
        labels: { grafana_dashboard: '1' },
        annotations: { 'kustomize.toolkit.fluxcd.io/substitute': 'disabled', grafana_folder: 'Activity Sync' },
      });
      // A ConfigMap may hold 1 MiB.
      expect(JSON.stringify(data).length).toBeLessThan(900_000);
    }
  });
});

describe('the types of the schemas', () => {
  // The schemas let unknown keys pass; TypeScript does not, in an object literal.
  const findUnknownKeys = (resources: Resource[]): string => {
    const folder = mkdtempSync(join(root, 'node_modules/.manifest-types-'));
    try {
      writeFileSync(join(folder, 'manifests.ts'), asTypedSource(resources));
      const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin/tsc');
      const args = [
        '--noEmit',
        '--ignoreConfig',
        '--strict',
        '--skipLibCheck',
        '--module',
        'nodenext',
        '--target',
        'es2024',
        '--types',
        '',
      ];
      execFileSync(process.execPath, [tsc, ...args, join(folder, 'manifests.ts')], { stdio: 'pipe' });
      return '';
    } catch (error) {
      return String((error as { stdout?: Buffer }).stdout ?? error);
    } finally {
      rmSync(folder, { recursive: true });
    }
  };

  it('know every key of every manifest', () => {
    expect(findUnknownKeys(layers.flatMap(({ resources }) => resources))).toBe('');
  });

  it('would not know a misspelt one', () => {
    const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'a', lables: {} } };
    expect(findUnknownKeys([namespace])).toContain('lables');
  });
});
