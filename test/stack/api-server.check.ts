import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { parseAllDocuments } from 'yaml';
import { fillIn, type Resource, readSettings } from '../../k8s/src/read-layers.ts';
import { findBuilt, readDefinitions } from '../../tools/programs.ts';
import { findResource, layers } from '../support/manifests.ts';
import { type Cluster, installDefinitions, moduleFolder, startCluster } from './cluster.ts';

const root = join(import.meta.dirname, '../..');
const NEEDS_FLUX = ['./k8s/sources', './k8s/operators', './k8s/monitoring/stack'];
/** An operator applies what Flux is to watch, with kubectl; Flux applies the layers. */
const managerOf = (name: string) => (name === 'flux' ? 'kubectl' : 'kustomize-controller');
const isSubstituted = (path: string) => path !== './dashboards';

/** What Flux applies for a layer: rendered by kubectl, with the settings filled in. */
const rendered = (path: string): Resource[] => {
  const text = execFileSync(findBuilt('kubectl'), ['kustomize', join(root, path)]).toString();
  return parseAllDocuments(isSubstituted(path) ? fillIn(text, readSettings()) : text).map((document) =>
    document.toJS(),
  );
};

describe('an empty cluster with Flux', () => {
  let cluster: Cluster;
  const applied = new Map<string, Resource[]>();

  beforeAll(async () => {
    cluster = await startCluster();
    await installDefinitions(cluster);
    await cluster.apply([{ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'flux-system' } }]); // by `flux install`
  }, 180_000);
  afterAll(async () => (cluster as Cluster | undefined)?.stop());

  it('accepts every kubectl command of the installation in docs/monitoring.md, in order', () => {
    const folder = mkdtempSync(join(tmpdir(), 'installation-'));
    symlinkSync(join(root, 'k8s'), join(folder, 'k8s'));
    for (const name of ['webhook-url', 'heartbeat-url', 'velero-credentials'])
      writeFileSync(join(folder, name), 'a secret');
    for (const name of ['service.env', 'web.env', 'backup.env']) writeFileSync(join(folder, name), 'NAME=value\n');
    const commands = installationCommands().filter((command) => command.startsWith('kubectl '));
    expect(commands.length).toBeGreaterThan(6);
    const env = {
      PATH: `${dirname(findBuilt('kubectl'))}:${process.env.PATH}`,
      KUBECONFIG: cluster.kubeconfig,
    };
    for (const command of commands) execFileSync('bash', ['-euc', command], { cwd: folder, env, stdio: 'pipe' });
    rmSync(folder, { recursive: true });
  });

  it('has every secret that a manifest refers to, after that installation or by an operator', async () => {
    const { stdout } = await cluster.kubectl(['get', 'secrets', '-A', '-o', 'jsonpath={.items[*].metadata.name}']);
    const byOperators = ['activity-sync-db-app', 'activity-sync-db-ca', readSettings().WILDCARD_TLS_SECRET];
    const there = [...stdout.split(' '), ...byOperators];
    const named = layers.flatMap(({ resources }) => [
      ...JSON.stringify(resources).matchAll(
        /"(?:secretRef|secretKeyRef|accessKeyId|secretAccessKey)":\{"name":"([^"]+)"/g,
      ),
      ...JSON.stringify(resources).matchAll(/"(?:secretName|existingSecret)":"([^"]+)"/g),
    ]);
    expect(named.length).toBeGreaterThan(5);
    expect(named.map(([, name]) => name).filter((name) => !there.includes(name ?? ''))).toEqual([]);
  });

  it.each([{ name: 'flux', path: './k8s/flux' }, ...layers])(
    'accepts the layer $name in order, without a warning',
    async ({ name, path }) => {
      applied.set(name, rendered(path));
      expect((await cluster.apply(rendered(path), managerOf(name))).stderr).toBe('');
    },
  );

  it('keeps every object as it is when all layers are applied again', async () => {
    const all = [...applied.values()].flat();
    const stored = async () => (await cluster.read(all)).map(withoutBookkeeping);
    const before = await stored();
    for (const [name, resources] of applied) await cluster.apply(resources, managerOf(name));
    expect(await stored()).toEqual(before);
  });

  describe('lets pods of the service run as `restricted`', () => {
    const templates = () =>
      [...applied.values()]
        .flat()
        .filter(({ kind }) => kind === 'Deployment' || kind === 'Job')
        .map(({ metadata, spec }) => podOf(metadata.name, spec.template));

    it('those of every Deployment and Job, without a warning', async () => {
      expect(templates().length).toBe(3);
      for (const pod of templates()) expect(await createDry(cluster, pod)).toMatchObject({ exitCode: 0, stderr: '' });
    });

    it('but none that would run as root', async () => {
      const [pod] = templates();
      const asRoot = { ...pod, spec: { ...pod?.spec, securityContext: { runAsUser: 0 } } };
      expect((await createDry(cluster, asRoot)).stderr).toContain('violates PodSecurity "restricted:latest"');
    });
  });

  it('takes the database that a restore makes, as docs/monitoring.md has it, without a warning', async () => {
    const page = readFileSync(join(root, 'docs/monitoring.md'), 'utf8');
    const [, restored = ''] = /^```yaml\n([\s\S]*?)^```/m.exec(page.slice(page.indexOf('### Restore'))) ?? [];
    const resources = parseAllDocuments(fillIn(restored, readSettings())).map((document) => document.toJS());
    expect(resources.map(({ kind }) => kind)).toEqual(['Cluster', 'ScheduledBackup']);
    expect((await cluster.apply(resources, 'kubectl')).stderr).toBe('');
  });

  it('refuses a field that no resource has', async () => {
    const [misspelt] = applied.get('namespaces') ?? [];
    await expect(cluster.apply([{ ...misspelt, sepc: {} }])).rejects.toThrow('sepc');
  });
});

describe('an empty cluster without Flux', () => {
  let cluster: Cluster;
  let folder: string;
  /** The commands that fill-in.ts prints, in their order. */
  let commands: string[];

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'without-flux-'));
    commands = execFileSync(process.execPath, [join(root, 'k8s/src/fill-in.ts')])
      .toString()
      .trim()
      .split('\n');
    cluster = await startCluster();
    // The chart of cert-manager brings its definitions; those of the other charts are installed in their place.
    await installDefinitions(cluster, (module) => /fluxcd|cert-manager/.test(module));
  }, 180_000);
  afterAll(async () => {
    await (cluster as Cluster | undefined)?.stop();
    rmSync(folder, { recursive: true });
    rmSync(join(commands.at(-1)?.split(' ').at(-1) ?? '', '..'), { recursive: true });
  });

  it('takes the namespaces, then a chart by the command of Helm, twice', async () => {
    const [namespaces = '', ...others] = commands;
    expect((await cluster.kubectl(namespaces.split(' ').slice(1))).stderr).toBe('');
    const printed = others.find((command) => command.startsWith('helm upgrade --install cert-manager ')) ?? '';
    const chart = await chartOfCertManager(folder);
    const fromModule = printed
      .replace(/ --repo \S+ --version \S+/, '')
      .replace('cert-manager cert-manager', `cert-manager ${chart}`);
    // No pod comes up here that Helm could wait for, or that could answer as the chart's webhook.
    const [, ...args] = fromModule.replace(/ --wait .*/, ' --no-hooks').split(' ');
    const env = { PATH: process.env.PATH, HOME: folder, KUBECONFIG: cluster.kubeconfig };
    for (const revision of [1, 2]) {
      const answer = execFileSync(findBuilt('helm'), args, { env, stdio: ['ignore', 'pipe', 'pipe'] }).toString();
      expect(answer).toMatch(new RegExp(`STATUS: deployed\nREVISION: ${revision}\n`));
    }
    const webhooks = 'validatingwebhookconfiguration,mutatingwebhookconfiguration';
    const removed = await cluster.kubectl(['delete', webhooks, '-l', 'app.kubernetes.io/instance=cert-manager']);
    expect(removed.exitCode).toBe(0);
    expect((await cluster.kubectl(['wait', '--for=condition=Established', 'crd', '--all'])).exitCode).toBe(0);
  });

  it('takes the whole tree at once with kubectl apply -k', async () => {
    const [, ...args] = commands.at(-1)?.split(' ') ?? [];
    const answer = await cluster.kubectl(args);
    expect([answer.exitCode, answer.stderr]).toEqual([0, '']);
    const everything = layers.filter(({ path }) => !NEEDS_FLUX.includes(path)).flatMap(({ path }) => rendered(path));
    expect((await cluster.read(everything)).length).toBe(everything.length);
  });
});

/** The chart as it is released: its module has it without a version. */
async function chartOfCertManager(folder: string): Promise<string> {
  const { module, version } = readDefinitions().find((one) => one.module.endsWith('/cert-manager')) ?? {};
  const chart = join(folder, 'cert-manager');
  const source = join(await moduleFolder(module ?? '', version ?? ''), 'deploy/charts/cert-manager');
  execFileSync('cp', ['-r', '--no-preserve=mode', source, chart]);
  const text = readFileSync(join(chart, 'Chart.template.yaml'), 'utf8').replaceAll('v0.0.0', version ?? '');
  writeFileSync(join(chart, 'Chart.yaml'), text);
  expect(findResource('HelmRelease', 'cert-manager').spec.chart.spec.version).toBe(version);
  return chart;
}

/** The commands of the section "Installing", without those that say that they are not run. */
function installationCommands(): string[] {
  const page = readFileSync(join(root, 'docs/monitoring.md'), 'utf8');
  const [, section = ''] = /^## Installing\n([\s\S]*?)^##+ /m.exec(page) ?? [];
  return [...section.matchAll(/^ *```sh\n([\s\S]*?)^ *```/gm)]
    .flatMap(([, block = '']) => block.split('\n').map((line) => line.trim()))
    .filter((line) => line !== '' && !line.startsWith('#') && !line.includes('# not run'));
}

// The API server rewrites an unchanged custom resource that is applied for the second time, and records the creator of
// an object without managed fields.
function withoutBookkeeping({
  metadata: { resourceVersion: _, managedFields: __, ...metadata },
  ...resource
}: Resource) {
  return { metadata, ...resource };
}

// biome-ignore lint/suspicious/noExplicitAny: a pod template is whatever the manifest says; the API server checks it
function podOf(name: string, template: any): any {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    ...template,
    metadata: { ...template.metadata, name, namespace: 'activity-sync' },
  };
}

function createDry(cluster: Cluster, pod: object) {
  return cluster.kubectl(['create', '--dry-run=server', '-f', '-'], JSON.stringify(pod));
}
