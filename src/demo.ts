import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type App, startApp } from '../examples/app/app.ts';
import { type Service, startService } from './compose.ts';
import { readConfig } from './infra/config.ts';
import { removeEmbeddedPostgres } from './infra/embedded-postgres.ts';
import { findFreePort } from './infra/free-port.ts';
import { createLogger } from './infra/logger.ts';
import { migrate } from './infra/migrate.ts';
import { hearStopSignal } from './infra/stop-signal.ts';
import { openStorage, type Storage } from './infra/storage.ts';
import { describeLoad, readLoadOptions, runLoad } from './load.ts';
import { type Simulator, startSimulator } from './simulator/simulator.ts';

const ATHLETES = ['Ada Runner', 'Bo Rider', 'Cleo Walker'];
const FIRST_ROUND = 6;
const EVERY_MS = 6000;
const UNLIMITED = 100_000_000;
const ACTIVITY_KINDS = [{}, {}, { kind: 'indoor' as const }, {}];

/**
 * The whole service in one command: database, simulated provider, every worker and the web.
 * With `load` as its first argument, many athletes and events instead of a few.
 */
async function demo(): Promise<void> {
  const stop = hearStopSignal();
  const load = process.argv[2] === 'load' ? readLoadOptions(process.argv.slice(3)) : undefined;
  say(load ? describeLoad(load) : 'Activity Sync demo: a webhook becomes a stored activity with its thumbnail.\n');
  const dataDir = await mkdtemp(join(tmpdir(), 'activity-sync-demo-'));
  await chmod(dataDir, 0o755); // as root, PostgreSQL runs under another account, which must reach it
  const simulator = await startSimulator({
    latencyMs: 20,
    ...(load && { shortLimit: load.callsPerWindow, dailyLimit: UNLIMITED }),
  });
  const port = await findFreePort(3000);
  const appPort = await findFreePort(4000);
  const adminToken = randomBytes(12).toString('hex');
  const config = readConfig({
    PROVIDER_CLIENT_ID: simulator.settings.clientId,
    PROVIDER_CLIENT_SECRET: simulator.settings.clientSecret,
    PROVIDER_VERIFY_TOKEN: randomBytes(12).toString('hex'),
    PROVIDER_API_URL: simulator.url,
    NEXT_PUBLIC_BASE_URL: `http://127.0.0.1:${port}`,
    PORT: String(port),
    ADMIN_TOKEN: adminToken,
    DATA_DIR: dataDir,
    RETURN_ORIGINS: `http://127.0.0.1:${appPort}`,
    OUTBOUND_ALLOW_PRIVATE: 'true',
    LOG_LEVEL: 'warn',
    ...(load && {
      PROVIDER_RATE_LIMIT_CAPACITY: String(load.callsPerWindow),
      API_RATE_LIMIT: String(UNLIMITED), // the example application reads the feed at every event
      THUMBNAIL_MAP_SOURCE: 'none', // the simulator would spend its time on drawing tiles
    }),
  });
  const logger = createLogger({ level: config.LOG_LEVEL, pretty: true });
  let storage: Storage | undefined;
  let service: Service | undefined;
  let app: App | undefined;
  try {
    say('1. starting an embedded PostgreSQL (the first start takes a few seconds)');
    storage = await openStorage(config, logger);
    if (stop.asked) return;
    await migrate({ connectionString: storage.connectionString, logger });
    service = await startService({ config, logger, openPages: true, ...storage });
    app = await openApp(service, { adminToken, port: appPort, file: join(dataDir, 'app.db') });
    const shown = { service, simulator, app, adminToken };
    const running = load
      ? runLoad({ ...shown, encryptionKeys: storage.encryptionKeys, subscribe: () => subscribe(shown), say }, load)
      : show(shown);
    await Promise.race([running, stop.untilAsked]);
  } finally {
    say('stopping');
    await service?.stop();
    await app?.stop();
    await simulator.close();
    await storage?.close();
    await removeEmbeddedPostgres({ dataDir, log: () => undefined });
    await rm(dataDir, { recursive: true, force: true });
  }
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

interface Shown {
  service: Service;
  simulator: Simulator;
  app: App;
  adminToken: string;
}

/** Starts the example application, with a token of its own. */
async function openApp(
  service: Service,
  { adminToken, port, file }: { adminToken: string; port: number; file: string },
): Promise<App> {
  const answer = await fetch(`${service.url}/api/admin/api-tokens`, {
    method: 'POST',
    headers: { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'example application', scope: 'write' }),
  });
  const { token } = (await answer.json()) as { token: string };
  const app = await startApp({ service: service.url, token, port, file });
  say(`2. starting the example application, which keeps a table of its own in sync: ${app.url}/`);
  return app;
}

/** Shows what happens, for as long as the process runs. */
async function show({ service, simulator, app, adminToken }: Shown): Promise<never> {
  say('3. connecting three of its users through the provider’s OAuth pages');
  for (const name of ATHLETES) await connect(app, simulator, name);
  say('4. creating the webhook subscription; the provider validates the callback during the call');
  await subscribe({ service, adminToken });
  say('\n5. activities arrive:\n');
  say('   activity      athlete       accepted    stored  thumbnail    in app   (after the webhook was sent)');
  for (let n = 0; n < FIRST_ROUND / 2; n += 1) await showOne({ service, simulator, app }, n % ATHLETES.length);
  say(`\nThe demo keeps running, with a new activity every ${EVERY_MS / 1000} seconds; Ctrl-C stops it.`);
  say(`   application   ${app.url}/   (connect a user: ${app.url}/connect?user=you)`);
  say(`   activities    ${service.url}/`);
  say(`   admin         ${service.url}/admin   (token ${adminToken})`);
  say(`   metrics       ${service.url}/metrics`);
  say(`   provider      ${simulator.url}/\n`);
  // In turn, so that each athlete's cooldown of 15 seconds is over.
  for (let n = 0; ; n += 1) {
    await pause(EVERY_MS);
    await showOne({ service, simulator, app }, n % ATHLETES.length);
  }
}

async function connect(app: App, simulator: Simulator, name: string): Promise<void> {
  const athlete = simulator.addAthlete({ name });
  const link = await fetch(`${app.url}/connect?user=${encodeURIComponent(name)}`, { redirect: 'manual' });
  const begun = await fetch(link.headers.get('location') ?? '', { redirect: 'manual' });
  const consent = new URL(begun.headers.get('location') ?? '');
  consent.searchParams.set('auto', '1'); // the athlete ticks the boxes and says yes
  consent.searchParams.set('athlete', athlete.id);
  const granted = await fetch(consent, { redirect: 'manual' });
  const cookie = begun.headers.get('set-cookie')?.split(';')[0] ?? '';
  const answer = await fetch(granted.headers.get('location') ?? '', { headers: { cookie } });
  if (!answer.ok) throw new Error(`Connecting ${name} failed: ${answer.status} ${await answer.text()}`);
  say(`   ${name} (${athlete.id})`);
}

async function subscribe({ service, adminToken }: Pick<Shown, 'service' | 'adminToken'>): Promise<void> {
  const answer = await fetch(`${service.url}/api/admin/webhooks`, {
    method: 'POST',
    headers: { authorization: `Bearer ${adminToken}` },
  });
  const body = (await answer.json()) as { id?: string; callbackUrl?: string };
  if (answer.status !== 201) throw new Error(`The subscription was refused: ${JSON.stringify(body)}`);
  say(`   subscription ${body.id} → ${body.callbackUrl}`);
}

/** Lets one activity arrive and waits until its picture is drawn. */
async function showOne({ service, simulator, app }: Omit<Shown, 'adminToken'>, which: number): Promise<void> {
  const athlete = simulator.athletes[which];
  if (!athlete) return;
  const kind = ACTIVITY_KINDS[Math.floor(Math.random() * ACTIVITY_KINDS.length)];
  const drawn = new Map<string, () => void>();
  const unsubscribe = service.hub.on('activity', (id) => drawn.get(id)?.());
  const sentAt = Date.now();
  let finished: () => void = () => undefined;
  const picture = new Promise<void>((resolve) => {
    finished = resolve;
  });
  const seen = new Set<string>();
  const watch = service.hub.on('activity', (id) => {
    seen.add(id);
  });
  const { id, ms } = await simulator.createActivityAndNotify(athlete.id, kind);
  drawn.set(id, finished);
  if (seen.has(id)) finished();
  const inApp = untilInApp(app, id).then(() => Date.now());
  await picture;
  watch();
  unsubscribe();
  const [row] = await service.database.query<{ name: string; stored: Date; drawn: Date }>(
    'SELECT a.name, a.fetched_at AS stored, t.rendered_at AS drawn FROM activity a JOIN thumbnail t USING (activity_id) WHERE activity_id = $1',
    [id],
  );
  if (!row) return;
  const after = (at: Date) => `${at.getTime() - sentAt} ms`.padStart(9);
  say(
    `   ${id.padEnd(13)} ${athlete.name.padEnd(12)} ${`${Math.round(ms)} ms`.padStart(9)} ${after(row.stored)}  ${after(row.drawn)} ${after(new Date(await inApp))}   ${row.name}${row.stored.getTime() - sentAt > 2000 ? ' (waited for the athlete’s cooldown of 15 s)' : ''}`,
  );
}

/** Resolves when the application's own table has an activity. */
async function untilInApp(app: App, id: string): Promise<void> {
  while (!app.activities().some((row) => row.id === id)) await pause(2);
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref();
  });
}

await demo();
