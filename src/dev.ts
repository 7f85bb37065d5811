import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { removeEmbeddedPostgres } from './infra/embedded-postgres.ts';
import { findFreePort } from './infra/free-port.ts';
import { createLogger } from './infra/logger.ts';
import { hearStopSignal, type StopSignal } from './infra/stop-signal.ts';
import { openStorage } from './infra/storage.ts';
import { type Simulator, startSimulator } from './simulator/simulator.ts';

const ATHLETES = ['Ada Runner', 'Bo Rider', 'Cleo Walker'];
const HISTORY_LENGTH = 5;
const READY_POLL_MS = 200;
const PLACEHOLDER_OR_NOTHING = /^(<.*>)?$/;

/**
 * The service during development: restarted on every change below src and sql. Without a client id it runs against
 * a simulated provider and its own database, which survive the restarts.
 * @param nodeOptions of the service's process, such as --inspect
 */
async function develop(nodeOptions: readonly string[]): Promise<void> {
  const stop = hearStopSignal();
  if (PLACEHOLDER_OR_NOTHING.test(process.env.PROVIDER_CLIENT_ID?.trim() ?? '')) {
    await developOnSimulator(nodeOptions, stop);
  } else {
    await endWhenAsked(startWatched(nodeOptions, {}), stop);
  }
}

async function developOnSimulator(nodeOptions: readonly string[], stop: StopSignal): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), 'activity-sync-dev-'));
  await chmod(dataDir, 0o755); // as root, PostgreSQL runs under another account, which must reach it
  const simulator = await startSimulator({ port: await findFreePort(4000, '127.0.0.1') });
  // A DATABASE_URL in .env is ignored: it may be the production database.
  const storage = await openStorage(
    { DATABASE_URL: undefined, MIGRATE_DATABASE_URL: undefined, TOKEN_ENCRYPTION_KEY: undefined, DATA_DIR: dataDir },
    createLogger({ level: 'warn', pretty: true }),
    () => process.exit(1),
  );
  try {
    if (stop.asked) return;
    const port = await findFreePort(Number(process.env.PORT || 3000));
    const url = `http://127.0.0.1:${port}`;
    const adminToken = randomBytes(12).toString('hex');
    const service = startWatched(nodeOptions, {
      PROVIDER_CLIENT_ID: simulator.settings.clientId,
      PROVIDER_CLIENT_SECRET: simulator.settings.clientSecret,
      PROVIDER_VERIFY_TOKEN: randomBytes(12).toString('hex'),
      PROVIDER_WEBHOOK_SECRET: '',
      PROVIDER_API_URL: simulator.url,
      NEXT_PUBLIC_BASE_URL: url,
      PORT: String(port),
      ADMIN_TOKEN: adminToken,
      ADMIN_READ_TOKEN: '',
      DATABASE_URL: storage.connectionString,
      MIGRATE_DATABASE_URL: '',
      MIGRATE_ON_START: 'true',
      TOKEN_ENCRYPTION_KEY: storage.encryptionKeys.join(','),
      OUTBOUND_ALLOW_PRIVATE: 'true',
      THUMBNAIL_MAP_SOURCE: `${simulator.url}/tiles/{z}/{x}/{y}.png`,
    });
    furnish(url, simulator, adminToken).catch((error: Error) => {
      if (!stop.asked) process.stderr.write(`${error.message}\n`);
    });
    await endWhenAsked(service, stop);
  } finally {
    await simulator.close();
    await storage.close();
    await removeEmbeddedPostgres({ dataDir, log: () => undefined });
    await rm(dataDir, { recursive: true, force: true });
  }
}

/** Starts the service under Node's own watcher. */
function startWatched(nodeOptions: readonly string[], env: Record<string, string>): ChildProcess {
  const root = fileURLToPath(new URL('..', import.meta.url));
  const options = ['--watch-path=src', '--watch-path=sql', '--watch-preserve-output', ...nodeOptions];
  return spawn(process.execPath, [...options, 'src/main.ts'], {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
}

/** Resolves when the watcher and its service have ended. */
async function endWhenAsked(watcher: ChildProcess, stop: StopSignal): Promise<void> {
  void stop.untilAsked.then(() => watcher.kill('SIGTERM'));
  await once(watcher, 'exit');
}

/** Connects the athletes of a started service, creates its subscription and prints the addresses. */
async function furnish(url: string, simulator: Simulator, adminToken: string): Promise<void> {
  while (!(await isReady(url))) await delay(READY_POLL_MS, undefined, { ref: false });
  for (const name of ATHLETES) {
    const athlete = simulator.addAthlete({ name });
    simulator.addHistory(athlete.id, HISTORY_LENGTH);
    await connect(url, athlete.id);
  }
  const subscribed = await fetch(`${url}/api/admin/webhooks`, {
    method: 'POST',
    headers: { authorization: `Bearer ${adminToken}` },
  });
  if (!subscribed.ok) throw new Error(`The subscription was refused: ${await subscribed.text()}`);
  process.stdout.write(
    [
      '',
      'Development against the simulated provider; every change below src and sql restarts the service.',
      `   console       ${url}/admin   (token ${adminToken})`,
      `   activities    ${url}/`,
      `   provider      ${simulator.url}/   (record, rename and delete activities there)`,
      '',
      '',
    ].join('\n'),
  );
}

async function isReady(url: string): Promise<boolean> {
  const answer = await fetch(`${url}/readyz`).catch(() => undefined);
  await answer?.arrayBuffer();
  return answer?.ok ?? false;
}

/** Connects an athlete as their browser would. */
async function connect(url: string, athleteId: string): Promise<void> {
  const begun = await fetch(`${url}/api/provider/connect`, { redirect: 'manual' });
  const consent = new URL(begun.headers.get('location') ?? '');
  consent.searchParams.set('auto', '1'); // the athlete ticks the boxes and says yes
  consent.searchParams.set('athlete', athleteId);
  const granted = await fetch(consent, { redirect: 'manual' });
  const cookie = begun.headers.get('set-cookie')?.split(';')[0] ?? '';
  const answer = await fetch(granted.headers.get('location') ?? '', { headers: { cookie } });
  if (!answer.ok) throw new Error(`Connecting athlete ${athleteId} failed: ${answer.status} ${await answer.text()}`);
}

await develop(process.argv.slice(3));
