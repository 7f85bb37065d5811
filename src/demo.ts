import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Service, startService } from './compose.ts';
import { readConfig } from './infra/config.ts';
import { removeEmbeddedPostgres } from './infra/embedded-postgres.ts';
import { findFreePort } from './infra/free-port.ts';
import { createLogger } from './infra/logger.ts';
import { migrate } from './infra/migrate.ts';
import { hearStopSignal } from './infra/stop-signal.ts';
import { openStorage, type Storage } from './infra/storage.ts';
import { type Simulator, startSimulator } from './simulator/simulator.ts';

const ATHLETES = ['Ada Runner', 'Bo Rider', 'Cleo Walker'];
const FIRST_ROUND = 6;
const EVERY_MS = 6000;
const ACTIVITY_KINDS = [{}, {}, { kind: 'indoor' as const }, {}];

/** The main job on real parts, in one command: database, a simulated provider, every worker and the web. */
async function demo(): Promise<void> {
  const stop = hearStopSignal();
  say('Activity Sync demo: a webhook becomes a stored activity with its thumbnail.\n');
  const dataDir = await mkdtemp(join(tmpdir(), 'activity-sync-demo-'));
  await chmod(dataDir, 0o755); // as root, PostgreSQL runs under another account, which must reach it
  const simulator = await startSimulator({ latencyMs: 20 });
  const port = await findFreePort(3000);
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
    LOG_LEVEL: 'warn',
    THUMBNAIL_MAP_SOURCE: `${simulator.url}/tiles/{z}/{x}/{y}.png`,
  });
  const logger = createLogger({ level: config.LOG_LEVEL, pretty: true });
  let storage: Storage | undefined;
  let service: Service | undefined;
  try {
    say('1. starting an embedded PostgreSQL (the first start takes a few seconds)');
    storage = await openStorage(config, logger);
    if (stop.asked) return;
    await migrate({ connectionString: storage.connectionString, logger });
    service = await startService({ config, logger, openPages: true, ...storage });
    await Promise.race([show(service, simulator, adminToken), stop.untilAsked]);
  } finally {
    say('stopping');
    await service?.stop();
    await simulator.close();
    await storage?.close();
    await removeEmbeddedPostgres({ dataDir, log: () => undefined });
    await rm(dataDir, { recursive: true, force: true });
  }
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Shows what happens, for as long as the process runs. */
async function show(service: Service, simulator: Simulator, adminToken: string): Promise<never> {
  say('2. connecting three athletes through the provider’s OAuth pages');
  for (const name of ATHLETES) await connect(service, simulator, name);
  say('3. creating the webhook subscription; the provider validates the callback during the call');
  await subscribe(service, adminToken);
  say('\n4. activities arrive:\n');
  say('   activity      athlete       accepted    stored  thumbnail   (after the webhook was sent)');
  for (let n = 0; n < FIRST_ROUND / 2; n += 1) await showOne(service, simulator, n % ATHLETES.length);
  say(`\nIt keeps running, with a new activity every ${EVERY_MS / 1000} seconds; Ctrl-C stops it.`);
  say(`   activities    ${service.url}/`);
  say(`   admin         ${service.url}/admin   (token ${adminToken})`);
  say(`   metrics       ${service.url}/metrics`);
  say(`   provider      ${simulator.url}/\n`);
  // In turn, so that each athlete's cooldown of 15 seconds is over.
  for (let n = 0; ; n += 1) {
    await pause(EVERY_MS);
    await showOne(service, simulator, n % ATHLETES.length);
  }
}

async function connect(service: Service, simulator: Simulator, name: string): Promise<void> {
  const athlete = simulator.addAthlete({ name });
  const begun = await fetch(`${service.url}/api/provider/connect`, { redirect: 'manual' });
  const consent = new URL(begun.headers.get('location') ?? '');
  consent.searchParams.set('auto', '1'); // the athlete ticks the boxes and says yes
  consent.searchParams.set('athlete', athlete.id);
  const granted = await fetch(consent, { redirect: 'manual' });
  const cookie = begun.headers.get('set-cookie')?.split(';')[0] ?? '';
  const answer = await fetch(granted.headers.get('location') ?? '', { headers: { cookie } });
  if (!answer.ok) throw new Error(`Connecting ${name} failed: ${answer.status} ${await answer.text()}`);
  say(`   ${name} (${athlete.id})`);
}

async function subscribe(service: Service, adminToken: string): Promise<void> {
  const answer = await fetch(`${service.url}/api/admin/webhooks`, {
    method: 'POST',
    headers: { authorization: `Bearer ${adminToken}` },
  });
  const body = (await answer.json()) as { id?: string; callbackUrl?: string };
  if (answer.status !== 201) throw new Error(`The subscription was refused: ${JSON.stringify(body)}`);
  say(`   subscription ${body.id} → ${body.callbackUrl}`);
}

/** Lets one activity arrive and waits until its picture is drawn. */
async function showOne(service: Service, simulator: Simulator, which: number): Promise<void> {
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
    `   ${id.padEnd(13)} ${athlete.name.padEnd(12)} ${`${Math.round(ms)} ms`.padStart(9)} ${after(row.stored)}  ${after(row.drawn)}   ${row.name}${row.stored.getTime() - sentAt > 2000 ? ' (waited for the athlete’s cooldown of 15 s)' : ''}`,
  );
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref();
  });
}

await demo();
