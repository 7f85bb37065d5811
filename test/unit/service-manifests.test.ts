import { readFileSync } from 'node:fs';
import { BlockList } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { createParts } from '../../src/compose/parts.ts';
import { systemClock } from '../../src/domain/clock.ts';
import { createAdminAuth } from '../../src/http/admin-auth.ts';
import { createAudit } from '../../src/http/audit.ts';
import { describedRoutes } from '../../src/http/described-routes.ts';
import { createRefusedTries } from '../../src/http/refused-tries.ts';
import { createPagesRouter } from '../../src/http/routes/pages.ts';
import { createSignIn } from '../../src/http/sign-in.ts';
import { readConfig } from '../../src/infra/config.ts';
import { ROLES, VARIABLES } from '../../src/infra/config-variables.ts';
import { openDatabase } from '../../src/infra/database.ts';
import { createSilentLogger } from '../../src/infra/logger.ts';
import { findResource, resources, settings } from '../support/manifests.ts';
import { ENCRYPTION_KEY, testEnvironment } from '../support/service.ts';

const root = join(import.meta.dirname, '../..');

describe('the service', () => {
  const workloads = ['activity-sync-web', 'activity-sync-worker'].map((name) => findResource('Deployment', name));
  const podSpecs = [...workloads, findResource('Job', 'activity-sync-migrate')].map(({ spec }) => spec.template.spec);

  it('runs without rights: no root, no writing, no capabilities, no token of the cluster', () => {
    for (const spec of podSpecs) {
      expect(spec.automountServiceAccountToken).toBe(false);
      expect(spec.securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } });
      const [container] = spec.containers;
      expect(container.name).toBe('activity-sync');
      expect(container.securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      });
      expect(container.resources).toMatchObject({
        requests: { cpu: expect.any(String), memory: expect.any(String) },
        limits: { memory: expect.any(String) },
      });
      expect(container.image).toBe(`${settings.APP_IMAGE}:${settings.APP_VERSION}`);
    }
  });

  it('sets only variables that the service knows', () => {
    // The second is the operator's address of the database, from which DATABASE_URL is made.
    const known = [...Object.keys(VARIABLES), 'NODE_OPTIONS', 'DATABASE_SECRET_URI'];
    const set = [
      ...Object.keys(findResource('ConfigMap', 'activity-sync').data),
      ...podSpecs.flatMap((spec) => spec.containers[0].env.map(({ name }: { name: string }) => name)),
    ];
    for (const name of set) expect(known).toContain(name);
  });

  it('gives every role to some Deployment', () => {
    const roles = workloads.flatMap(({ spec }) =>
      spec.template.spec.containers[0].env
        .find(({ name }: { name: string }) => name === 'SERVICE_ROLES')
        .value.split(','),
    );
    expect(roles.sort()).toEqual([...ROLES].sort());
  });

  it('gives each process the secrets of its role: the tokens that are checked by web processes to no worker', () => {
    const secrets = podSpecs.map(({ containers }) =>
      (containers[0].envFrom ?? []).flatMap(({ secretRef }: { secretRef?: { name: string } }) => secretRef?.name ?? []),
    );
    expect(secrets).toEqual([['activity-sync', 'activity-sync-web'], ['activity-sync'], []]);
  });

  it('starts with the secrets of its role', () => {
    const ofAll = { PROVIDER_CLIENT_ID: '1', PROVIDER_CLIENT_SECRET: 's', TOKEN_ENCRYPTION_KEY: ENCRYPTION_KEY };
    const ofWeb = { PROVIDER_VERIFY_TOKEN: 'v', ADMIN_TOKEN: 'a-token-of-the-admins' };
    const { data } = findResource('ConfigMap', 'activity-sync');
    const start = (roles: string, secrets: object) =>
      readConfig({
        ...data,
        ...secrets,
        SERVICE_ROLES: roles,
        DATABASE_URL: 'postgres://db.example.com/activity_sync',
      });
    const [web, worker] = workloads.map(
      ({ spec }) =>
        spec.template.spec.containers[0].env.find(({ name }: { name: string }) => name === 'SERVICE_ROLES').value,
    );
    expect(() => start(web, { ...ofAll, ...ofWeb })).not.toThrow();
    expect(() => start(worker, ofAll)).not.toThrow();
    expect(() => start(web, ofAll)).toThrow('PROVIDER_VERIFY_TOKEN is missing');
  });

  it("talks to the database over TLS, and trusts its operator's authority alone", () => {
    for (const { containers, volumes } of podSpecs) {
      const [{ env, volumeMounts }] = containers;
      const url = env.find(({ name }: { name: string }) => name === 'DATABASE_URL').value;
      expect(url).toBe('$(DATABASE_SECRET_URI)?sslmode=verify-full&sslrootcert=/etc/database/ca.crt');
      expect(volumeMounts).toContainEqual({ name: 'database-ca', mountPath: '/etc/database', readOnly: true });
      expect(volumes[0].secret).toEqual({
        secretName: 'activity-sync-db-ca',
        items: [{ key: 'ca.crt', path: 'ca.crt' }],
      });
    }
  });

  it('is migrated by a Job that waits for what is missing instead of failing for good', () => {
    const { spec } = findResource('Job', 'activity-sync-migrate');
    expect(spec).not.toHaveProperty('activeDeadlineSeconds');
    expect(spec.template.spec.restartPolicy).toBe('OnFailure');
    expect(spec.backoffLimit).toBeGreaterThanOrEqual(1000);
  });

  it('alone reaches the database, beside its operator and Prometheus', () => {
    const { podSelector, ingress } = findResource('NetworkPolicy', 'activity-sync-db').spec;
    expect(podSelector.matchExpressions[0].values).toContain('activity-sync-db');
    const allowedTo = (port: number) =>
      ingress
        .filter(({ ports }: { ports: { port: number }[] }) => ports.some((one) => one.port === port))
        .flatMap(({ from }: { from: object[] }) => from);
    expect(allowedTo(5432)).toEqual(
      expect.arrayContaining([{ podSelector: { matchLabels: { 'app.kubernetes.io/name': 'activity-sync' } } }]),
    );
    const namespaces = allowedTo(5432).flatMap(
      ({ namespaceSelector }: { namespaceSelector?: { matchLabels: object } }) =>
        namespaceSelector === undefined ? [] : Object.values(namespaceSelector.matchLabels),
    );
    expect(namespaces).toEqual(['cnpg-system']);
  });

  it('reaches public addresses by HTTPS, and no private or link-local one', () => {
    const { egress } = findResource('NetworkPolicy', 'activity-sync').spec;
    const byHttps = egress.find(({ ports }: { ports: { port: number }[] }) => ports[0]?.port === 443);
    const closed = new BlockList();
    for (const { ipBlock } of byHttps.to)
      for (const range of ipBlock.except) {
        const [address, prefix] = range.split('/');
        closed.addSubnet(address, Number(prefix), address.includes(':') ? 'ipv6' : 'ipv4');
      }
    const isClosed = (address: string) => closed.check(address, address.includes(':') ? 'ipv6' : 'ipv4');
    expect(byHttps.to.map(({ ipBlock }: { ipBlock: { cidr: string } }) => ipBlock.cidr)).toEqual(['0.0.0.0/0', '::/0']);
    const inside = ['10.1.2.3', '172.31.0.1', '192.168.1.1', '169.254.169.254', '100.64.0.1', 'fd00::1', 'fe80::1'];
    expect(inside.filter((address) => !isClosed(address))).toEqual([]);
    expect(['52.1.2.3', '2600:9000::1'].filter(isClosed)).toEqual([]);
  });

  it('probes whether the service is alive and ready', () => {
    for (const { spec } of workloads) {
      const [container] = spec.template.spec.containers;
      expect(container.livenessProbe.httpGet).toEqual({ path: '/healthz', port: 'http' });
      expect(container.readinessProbe.httpGet).toEqual({ path: '/readyz', port: 'http' });
      expect(container.ports).toContainEqual({ name: 'http', containerPort: 3000 });
    }
  });

  it('scales web processes by CPU, and keeps the workers, which wait for the budget, at two', () => {
    const scaled = resources.filter(({ resource }) => resource.kind === 'HorizontalPodAutoscaler');
    expect(scaled.map(({ resource }) => resource.spec.scaleTargetRef.name)).toEqual(['activity-sync-web']);
    expect(workloads.map(({ spec }) => spec.replicas)).toEqual([undefined, 2]);
    for (const { spec, metadata } of workloads) {
      expect(findResource('PodDisruptionBudget', metadata.name).spec.selector.matchLabels).toEqual(
        spec.selector.matchLabels,
      );
    }
  });

  it('never opens more connections than the database allows, with every replica and one more of each in a rollout', async () => {
    const { data } = findResource('ConfigMap', 'activity-sync');
    let opened = 0;
    for (const { spec, metadata } of workloads) {
      const env = spec.template.spec.containers[0].env.find(({ name }: { name: string }) => name === 'SERVICE_ROLES');
      const config = readConfig(testEnvironment('http://127.0.0.1:1', { ...data, SERVICE_ROLES: env.value }));
      const connectionString = 'postgres://127.0.0.1:1/none'; // connects when it is first asked
      const logger = createSilentLogger();
      const parts = createParts({
        config,
        connectionString,
        encryptionKeys: [ENCRYPTION_KEY],
        logger,
        clock: systemClock,
        random: Math.random,
      });
      // Four workers are the most that the runbooks tell an operator to set.
      const maxReplicas = parts.has('web')
        ? findResource('HorizontalPodAutoscaler', metadata.name).spec.maxReplicas
        : 4;
      const { maxSurge } = spec.strategy.rollingUpdate;
      // Beside the pool: one that listens, two for deliveries, two for runs that end.
      const alone = 1 + (parts.has('web') ? 2 : 0) + (parts.has('fetch') ? 2 : 0);
      opened += (maxReplicas + maxSurge) * (parts.database.pool.options.max + alone);
      parts.transport.close();
      await parts.database.close();
    }
    // Some are PostgreSQL's own for administrators, and some its operator's.
    const allowed = Number(findResource('Cluster', 'activity-sync-db').spec.postgresql.parameters.max_connections) - 10;
    expect(opened).toBeLessThanOrEqual(allowed);
  });

  it('is scraped under the job name that the rules use', () => {
    const monitor = findResource('ServiceMonitor', 'activity-sync');
    expect(monitor.metadata.labels.release).toBe(settings.STACK_RELEASE_NAME);
    for (const name of ['activity-sync', 'activity-sync-worker']) {
      expect(findResource('Service', name).metadata.labels[monitor.spec.jobLabel]).toBe('activity-sync');
      expect(findResource('Service', name).metadata.labels).toMatchObject(monitor.spec.selector.matchLabels);
    }
  });

  it('does not show its metrics and its readiness to the world', () => {
    expect(ingressPaths.filter(({ path, pathType }) => path === '/' && pathType === 'Prefix')).toEqual([]);
    for (const path of INSIDE) expect([path, isPublished(path)]).toEqual([path, false]);
  });

  it('shows the world every other path that it serves', async () => {
    const pages = await pagePaths();
    expect(pages).toEqual(expect.arrayContaining(['/', '/sign-in']));
    const served = [
      ...pages,
      ...describedRoutes.map(({ path }) => path).filter((path) => !INSIDE.includes(path)),
      ...['/api/admin/activity-jobs', '/api/openapi.json', '/admin', '/admin/jobs/1', '/admin/assets/console.js'],
      ...publicPathsOfDocs(),
    ];
    expect(served.filter((path) => !isPublished(path))).toEqual([]);
  });
});

const INSIDE = ['/metrics', '/readyz'];
const ingressPaths: { path: string; pathType: string }[] = findResource('Ingress', 'activity-sync').spec.rules[0].http
  .paths;

/** Whether the ingress lets a path through, as Kubernetes compares: a prefix is made of whole parts of the path. */
function isPublished(path: string): boolean {
  return ingressPaths.some(
    (rule) => path === rule.path || (rule.pathType === 'Prefix' && path.startsWith(`${rule.path.replace(/\/$/, '')}/`)),
  );
}

async function pagePaths(): Promise<string[]> {
  const database = openDatabase({
    connectionString: 'postgres://127.0.0.1:1/none', // connects when it is first asked
    maxConnections: 1,
    applicationName: 'test',
    onError: () => undefined,
  });
  const logger = createSilentLogger();
  const audit = createAudit(database, logger);
  const refusedTries = createRefusedTries({ audit, clock: systemClock, logger });
  const tokens = { adminToken: undefined, readToken: undefined };
  const auth = createAdminAuth({ database, refusedTries, ...tokens, secureCookie: true });
  const router = createPagesRouter({
    database,
    auth,
    open: false,
    signIn: createSignIn(auth, audit),
  });
  await database.close();
  return router.stack.flatMap(({ route }) => (route === undefined ? [] : [route.path]));
}

/** The paths in docs/security.md that are open to the outside. */
function publicPathsOfDocs(): string[] {
  const rows = readFileSync(join(root, 'docs/security.md'), 'utf8').match(/^\| `\/.*$/gm) ?? [];
  return rows
    .map((row) => row.split('|')[1] ?? '')
    .filter((paths) => !INSIDE.some((path) => paths.includes(path)))
    .flatMap((paths) => [...paths.matchAll(/`(\/[^`]*)`/g)].map(([, path = '']) => path.replace(/[*…]$/, 'x')));
}
