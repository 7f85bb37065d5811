import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { freePort, type LocalProgram, started } from '../../alerting/src/local-stack.ts';
import type { Resource } from '../../k8s/src/read-layers.ts';
import { findBuilt, readDefinitions } from '../../tools/programs.ts';
import { until } from '../support/until.ts';

const TOKEN = 'administrator-of-the-checks';
const START_PATIENCE_MS = 120_000;

/** What a command of kubectl printed. */
export interface KubectlAnswer {
  exitCode: number;
  stdout: string;
  /** Errors, and the API server's warnings. */
  stderr: string;
}

/** An empty cluster: a real etcd and a real API server, with no node and no controller. */
export interface Cluster {
  url: string;
  /** For programs that take `--kubeconfig`. */
  kubeconfig: string;
  /** A certificate for 127.0.0.1 that is its own authority, and its key: files of the API server. */
  certificate: { cert: string; key: string };
  /** Runs kubectl as administrator. */
  kubectl(args: string[], input?: string): Promise<KubectlAnswer>;
  /** Applies resources server-side. @throws when the API server refuses one */
  apply(resources: object[], fieldManager?: string): Promise<KubectlAnswer>;
  /** Reads resources as they are stored. @throws when one is not there */
  read(resources: object[]): Promise<Resource[]>;
  stop(): Promise<void>;
}

/** Starts an empty cluster; it knows no custom resource until {@link installDefinitions}. */
export async function startCluster(): Promise<Cluster> {
  const folder = mkdtempSync(join(tmpdir(), 'cluster-'));
  const etcd = await startEtcd(folder);
  const port = await freePort();
  const url = `https://127.0.0.1:${port}`;
  const kubeconfig = join(folder, 'kubeconfig');
  writeFileSync(join(folder, 'tokens.csv'), `${TOKEN},administrator,administrator,"system:masters"\n`);
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  writeFileSync(join(folder, 'accounts.key'), privateKey.export({ type: 'pkcs1', format: 'pem' }));
  writeFileSync(kubeconfig, stringify(kubeconfigFor(url)));
  const child = spawn(
    findBuilt('kube-apiserver'),
    [
      `--etcd-servers=${etcd.url}`,
      '--bind-address=127.0.0.1',
      `--secure-port=${port}`,
      `--cert-dir=${join(folder, 'certificates')}`,
      '--endpoint-reconciler-type=none', // refuses the loopback address
      '--service-cluster-ip-range=10.43.0.0/16',
      '--service-account-issuer=https://kubernetes.default.svc',
      `--service-account-key-file=${join(folder, 'accounts.key')}`,
      `--service-account-signing-key-file=${join(folder, 'accounts.key')}`,
      `--token-auth-file=${join(folder, 'tokens.csv')}`,
      '--authorization-mode=RBAC',
      '--disable-admission-plugins=ServiceAccount', // no controller makes the accounts that it asks for
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  const server = await started(child, port, /Serving securely/);

  const kubectl = (args: string[], input?: string) =>
    run(findBuilt('kubectl'), ['--kubeconfig', kubeconfig, ...args], input);
  const cluster: Cluster = {
    url,
    kubeconfig,
    certificate: {
      cert: join(folder, 'certificates/apiserver.crt'),
      key: join(folder, 'certificates/apiserver.key'),
    },
    kubectl,
    async apply(resources, fieldManager = 'kustomize-controller') {
      const args = ['apply', '--server-side', `--field-manager=${fieldManager}`, '-f', '-'];
      const answer = await kubectl(args, listOf(resources));
      if (answer.exitCode !== 0) throw new Error(answer.stderr);
      return answer;
    },
    async read(resources) {
      const args = ['get', '-o', 'json', '-f', '-'];
      const { stdout, stderr, exitCode } = await kubectl(args, listOf(resources));
      if (exitCode !== 0) throw new Error(stderr);
      const answer = JSON.parse(stdout);
      return answer.kind === 'List' ? answer.items : [answer];
    },
    async stop() {
      await server.stop();
      await etcd.stop();
      rmSync(folder, { recursive: true });
    },
  };
  await until(
    async () => (await kubectl(['get', '--raw', '/readyz'])).exitCode === 0,
    'the API server being ready',
    START_PATIENCE_MS,
  );
  return cluster;
}

/** Installs the operators' own definitions of their custom resources, as their charts and Flux do. */
export async function installDefinitions(cluster: Cluster, except: (module: string) => boolean = () => false) {
  for (const { module, version, folder } of readDefinitions().filter(({ module }) => !except(module))) {
    const path = join(await moduleFolder(module, version), folder);
    const answer = await cluster.kubectl(['apply', '--server-side', '-f', path]);
    // A folder may hold a README or a kustomization beside the definitions; kubectl reads YAML only.
    if (answer.exitCode !== 0) throw new Error(answer.stderr);
  }
  const established = ['wait', '--for=condition=Established', 'crd', '--all', '--timeout=60s'];
  const answer = await cluster.kubectl(established);
  if (answer.exitCode !== 0) throw new Error(answer.stderr);
}

function listOf(items: object[]): string {
  return JSON.stringify({ apiVersion: 'v1', kind: 'List', items });
}

async function startEtcd(folder: string): Promise<LocalProgram> {
  const [clients, peers] = [await freePort(), await freePort()].map((port) => `http://127.0.0.1:${port}`) as [
    string,
    string,
  ];
  const child: ChildProcess = spawn(
    'etcd',
    [
      `--data-dir=${join(folder, 'etcd')}`,
      `--listen-client-urls=${clients}`,
      `--advertise-client-urls=${clients}`,
      `--listen-peer-urls=${peers}`,
      `--initial-advertise-peer-urls=${peers}`,
      `--initial-cluster=default=${peers}`,
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  return started(child, Number(new URL(clients).port), /serving (insecure )?client (requests|traffic)/);
}

/** Where Go keeps a module's files. */
export async function moduleFolder(module: string, version: string): Promise<string> {
  const { stdout } = await run('go', ['mod', 'download', '-json', `${module}@${version}`]);
  return (JSON.parse(stdout) as { Dir: string }).Dir;
}

function kubeconfigFor(server: string) {
  return {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'checks', cluster: { server, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'administrator', user: { token: TOKEN } }],
    contexts: [{ name: 'checks', context: { cluster: 'checks', user: 'administrator' } }],
    'current-context': 'checks',
  };
}

function run(program: string, args: string[], input?: string): Promise<KubectlAnswer> {
  return new Promise((resolve) => {
    const child = execFile(program, args, { maxBuffer: 64 << 20 }, (error, stdout, stderr) => {
      resolve({ exitCode: error ? Number(error.code ?? 1) : 0, stdout, stderr });
    });
    // A command that reads nothing may be gone before its input is.
    if (input !== undefined) child.stdin?.end(input);
  });
}
