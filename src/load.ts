import { setTimeout as pause } from 'node:timers/promises';
import { Command, InvalidArgumentError } from 'commander';
import type { Service } from './compose.ts';
import { createSecretBox } from './infra/secret-box.ts';
import type { Simulator } from './simulator/simulator.ts';
import { saveAthlete } from './store/athletes.ts';

/** The load that is added to the demo. */
export interface LoadOptions {
  athletes: number;
  eventsPerMinute: number;
  minutes: number;
  /** What the simulated provider allows in 15 minutes. */
  callsPerWindow: number;
}

const WINDOW_MINUTES = 15;
const DOCUMENTED_CALLS = 600;
const SAY_EVERY_MS = 5000;
const LOOK_MS = 1000;
const STORED_WITHIN_MS = 60_000;
const ATHLETES_AT_ONCE = 500;
/** One event in this many renames an existing activity; the others are new activities. */
const RENAME_EVERY = 5;

/** Reads the options of `npm run load`. Ends the process with a message when one is wrong. */
export function readLoadOptions(args: readonly string[]): LoadOptions {
  const command = new Command('npm run load --')
    .description('Runs the demo under load: many athletes, events at a steady rate.')
    .option('--athletes <count>', 'how many athletes are connected', readCount, 1000)
    .option('--events-per-minute <count>', 'how many webhooks arrive a minute', readCount, 600)
    .option('--minutes <count>', 'for how long', readCount, 5)
    .option(
      '--calls <count>',
      'calls that the provider allows in 15 minutes; by default enough for the events',
      readCount,
    )
    .parse([...args], { from: 'user' });
  const { calls, ...options } = command.opts<Omit<LoadOptions, 'callsPerWindow'> & { calls?: number }>();
  // Twice what the events need: a tenth is kept for webhooks, and new athletes are polled.
  const enough = Math.max(DOCUMENTED_CALLS, 2 * (options.eventsPerMinute * WINDOW_MINUTES + options.athletes));
  return { ...options, callsPerWindow: calls ?? enough };
}

function readCount(text: string): number {
  const count = Number(text);
  if (!Number.isSafeInteger(count) || count < 1) throw new InvalidArgumentError('Give a whole number from 1.');
  return count;
}

export function describeLoad({ athletes, eventsPerMinute, minutes, callsPerWindow }: LoadOptions): string {
  return `Activity Sync under load: ${athletes} athletes, ${eventsPerMinute} events a minute for ${minutes} min; the simulated provider allows ${callsPerWindow} calls in 15 min.\n`;
}

export interface LoadDependencies {
  service: Service;
  simulator: Simulator;
  adminToken: string;
  encryptionKeys: readonly string[];
  /** Creates the webhook subscription. */
  subscribe: () => Promise<void>;
  say: (line: string) => void;
}

/**
 * Connects the athletes, delivers the events, and says every 5 s how the service keeps up. Resolves when the events are
 * over and every activity is stored; sets exit code 1 if one is not stored within a minute.
 */
export async function runLoad(deps: LoadDependencies, options: LoadOptions): Promise<void> {
  const { service, say } = deps;
  await connectAthletes(deps, options.athletes);
  await deps.subscribe();
  say(`4. watch it live: ${service.url}/admin   (token ${deps.adminToken})\n`);
  say('   time    events   stored  waiting   accepted p50 / p99    stored p50 / p99   (after the webhook was sent)');
  const figures: Figures = { events: 0, stored: 0, acceptedMs: [], storedMs: [], sentAt: new Map() };
  const startedAt = performance.now();
  let deliveredAt = Number.POSITIVE_INFINITY;
  const delivering = deliverAll(deps, figures, options).then(() => {
    deliveredAt = performance.now();
  });
  for (let isOver = false; !isOver; ) {
    await Promise.race([pause(SAY_EVERY_MS), delivering.then(() => pause(LOOK_MS))]);
    await lookWhatIsStored(service, figures);
    say(lineOf(figures, performance.now() - startedAt));
    const sinceMs = performance.now() - deliveredAt;
    isOver = sinceMs > 0 && (figures.sentAt.size === 0 || sinceMs > STORED_WITHIN_MS);
  }
  const missing = figures.sentAt.size;
  if (missing > 0) process.exitCode = 1;
  say(missing === 0 ? '\nEvery activity is stored.' : `\n${missing} activities are not stored yet.`);
}

async function connectAthletes(
  { service, simulator, encryptionKeys, say }: LoadDependencies,
  count: number,
): Promise<void> {
  say(`3. connecting ${count} athletes`);
  const secretBox = createSecretBox(encryptionKeys);
  for (let from = 0; from < count; from += ATHLETES_AT_ONCE) {
    const athletes = Array.from({ length: Math.min(ATHLETES_AT_ONCE, count - from) }, () => simulator.addAthlete());
    await service.database.transaction(async (tx) => {
      for (const { id, name } of athletes) {
        const tokens = simulator.grantTokens(id);
        await saveAthlete(tx, {
          athleteId: id,
          name,
          scope: 'read,activity:read_all',
          state: 'healthy',
          stateDetail: undefined,
          accessToken: secretBox.seal(tokens.accessToken),
          refreshToken: secretBox.seal(tokens.refreshToken),
          expiresAt: new Date(tokens.expiresAt * 1000),
        });
      }
    });
    say(`   ${from + athletes.length} of ${count}`);
  }
}

interface Figures {
  events: number;
  stored: number;
  acceptedMs: number[];
  storedMs: number[];
  /** When the webhook of each activity that is not stored yet was sent, in milliseconds since the epoch. */
  sentAt: Map<string, number>;
}

/** Checks which activities are stored by now, and records how long that took. */
async function lookWhatIsStored({ database }: Service, figures: Figures): Promise<void> {
  const rows = await database.query<{ activity_id: string; fetched_at: Date }>(
    'SELECT activity_id, fetched_at FROM activity WHERE activity_id = ANY ($1::bigint[])',
    [[...figures.sentAt.keys()]],
  );
  for (const { activity_id: id, fetched_at: storedAt } of rows) {
    figures.storedMs.push(storedAt.getTime() - (figures.sentAt.get(id) ?? 0));
    figures.sentAt.delete(id);
  }
  figures.stored += rows.length;
}

/** Delivers the events at a steady rate, whether or not earlier ones were answered. */
async function deliverAll(
  { simulator }: LoadDependencies,
  figures: Figures,
  { eventsPerMinute, minutes }: LoadOptions,
): Promise<void> {
  const { athletes } = simulator;
  const known: string[] = [];
  const startedAt = performance.now();
  const underWay: Promise<void>[] = [];
  for (let n = 0; n < eventsPerMinute * minutes; n += 1) {
    await pause(Math.max(0, startedAt + (n * 60_000) / eventsPerMinute - performance.now()));
    const athlete = athletes[n % athletes.length] as (typeof athletes)[number];
    const renamed = n % RENAME_EVERY === RENAME_EVERY - 1 ? known[n % known.length] : undefined;
    underWay.push(deliverOne(simulator, figures, athlete.id, known, renamed));
  }
  await Promise.all(underWay);
}

async function deliverOne(
  simulator: Simulator,
  figures: Figures,
  athleteId: string,
  known: string[],
  renamed: string | undefined,
): Promise<void> {
  figures.events += 1;
  if (renamed !== undefined) {
    const { ms } = await simulator.updateActivityAndNotify(renamed, { name: `Renamed by event ${figures.events}` });
    figures.acceptedMs.push(ms);
    return;
  }
  const { id } = simulator.addActivity(athleteId);
  figures.sentAt.set(id, Date.now());
  const { ms } = await simulator.deliver({ object_id: id, owner_id: athleteId });
  figures.acceptedMs.push(ms);
  known.push(id);
}

function lineOf(figures: Figures, elapsedMs: number): string {
  const seconds = Math.round(elapsedMs / 1000);
  const time = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
  const count = (n: number) => String(n).padStart(8);
  const share = (values: number[]) => `${millis(values, 0.5)} / ${millis(values, 0.99)} ms`.padStart(20);
  return `   ${time.padStart(5)}${count(figures.events)}${count(figures.stored)}${count(figures.sentAt.size)} ${share(figures.acceptedMs)}${share(figures.storedMs)}`;
}

function millis(values: readonly number[], share: number): string {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted.length === 0 ? '–' : String(Math.round(sorted[Math.floor(share * (sorted.length - 1))] as number));
}
