/*
 * What the processes of k8s/app need: CPU and memory of a web and a worker process, idle, at ten times the
 * calls that the documented budget allows, and at full load. The requests and limits in
 * k8s/app come from here. Run: node bench/resources.ts [seconds of a phase]
 */
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { openDatabase } from '../src/infra/database.ts';
import { freePort, type ServiceProcess, startServiceProcess } from '../test/support/service-process.ts';
import { percentile, printTable } from './support/figures.ts';
import { runLoad } from './support/load-generator.ts';
import { startBenchPostgres } from './support/postgres.ts';
import { connectAthletes, requestAll } from './support/seed-jobs.ts';
import { serviceEnvironment } from './support/service-environment.ts';
import { type BenchAthlete, startSimulatorProcess } from './support/simulator-process.ts';

const PHASE_S = Number(process.argv[2] ?? 20);
const DOCUMENTED_PER_S = 600 / 900;
const STEADY_PER_S = 10 * DOCUMENTED_PER_S;
const TICKS_PER_S = 100; // USER_HZ
const WEBHOOK_PATH = '/api/provider/webhook';

const postgres = await startBenchPostgres();
const simulator = await startSimulatorProcess();
const url = await postgres.createDatabase();
const database = openDatabase({
  connectionString: url,
  maxConnections: 3,
  applicationName: 'bench',
  onError: (error) => process.stderr.write(`${error.message}\n`),
});
const webPort = await freePort();
const provider = {
  PROVIDER_API_URL: simulator.url,
  PROVIDER_RATE_LIMIT_CAPACITY: '100000000',
  PROVIDER_ATHLETE_COOLDOWN: '0',
};
const web = startServiceProcess(serviceEnvironment(url, webPort, { SERVICE_ROLES: 'web', ...provider }), {
  quiet: true,
});
const worker = startServiceProcess(
  serviceEnvironment(url, await freePort(), { SERVICE_ROLES: 'fetch,thumbnail,polling', ...provider }),
  { quiet: true },
);
try {
  await Promise.all([web.ready(), worker.ready()]);
  const athletes = await simulator.addAthletes(Array.from({ length: 200 }, () => 200));
  await connectAthletes(database, athletes);
  const [steady, bulk] = [athletes.slice(0, 100), athletes.slice(100)];
  const rows: (string | number)[][] = [['', 'web m', 'web m p95', 'web MiB', 'worker m', 'worker m p95', 'worker MiB']];
  rows.push(await measure('idle', () => pause(PHASE_S * 1000)));
  rows.push(await measure(`${STEADY_PER_S.toFixed(1)} webhooks/s, fetched, with thumbnails`, () => deliver(steady)));
  rows.push(
    await measure('fetches and thumbnails without pause', async () => {
      await requestAll(database, bulk, 'manual');
      await pause(PHASE_S * 1000);
    }),
  );
  await database.query(`UPDATE rate_budget SET blocked_until = 'infinity', blocked_by = 'the benchmark'`);
  rows.push(
    await measure('deliveries without pause', async () => {
      const load = { port: webPort, path: WEBHOOK_PATH, connections: 32, durationMs: PHASE_S * 1000 };
      await runLoad({ ...load, firstId: 90_000_000_000 });
    }),
  );
  console.log(`CPU in thousandths of a core, memory at its highest, ${PHASE_S} s each`);
  printTable(rows);
} finally {
  await Promise.all([web.end('SIGTERM'), worker.end('SIGTERM')]);
  await database.close();
  await simulator.stop();
  await postgres.stop();
}

/** Webhooks of activities that the provider knows, evenly spread. */
async function deliver(athletes: readonly BenchAthlete[]): Promise<void> {
  for (let n = 0; n < STEADY_PER_S * PHASE_S; n += 1) {
    const { athleteId, activityIds } = athletes[n % athletes.length] as BenchAthlete;
    const event = { object_type: 'activity', aspect_type: 'create', subscription_id: 1, updates: {} };
    const answer = await fetch(`${web.url}${WEBHOOK_PATH}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        ...event,
        object_id: Number(activityIds[Math.floor(n / athletes.length)]),
        owner_id: Number(athleteId),
        event_time: Math.floor(Date.now() / 1000),
      }),
    });
    await answer.arrayBuffer();
    if (answer.status !== 200) throw new Error(`A webhook was answered with ${answer.status}.`);
    await pause(1000 / STEADY_PER_S);
  }
}

async function measure(phase: string, work: () => Promise<void>): Promise<(string | number)[]> {
  const processes = [web, worker].map((service) => ({ service, samples: [] as number[], last: ticksOf(service) }));
  let lastAt = performance.now();
  const sample = setInterval(() => {
    const seconds = (performance.now() - lastAt) / 1000;
    lastAt = performance.now();
    for (const one of processes) {
      const ticks = ticksOf(one.service);
      one.samples.push(((ticks - one.last) / TICKS_PER_S / seconds) * 1000);
      one.last = ticks;
    }
  }, 1000);
  await work();
  clearInterval(sample);
  return [
    phase,
    ...processes.flatMap(({ service, samples }) => [
      (samples.reduce((sum, one) => sum + one, 0) / samples.length).toFixed(0),
      percentile(samples, 0.95).toFixed(0),
      (highestKiB(service) / 1024).toFixed(0),
    ]),
  ];
}

/** CPU time of a process so far, user and system. */
function ticksOf({ child }: ServiceProcess): number {
  const text = readFileSync(`/proc/${child.pid}/stat`, 'latin1');
  const [user, system] = text
    .slice(text.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13);
  return Number(user) + Number(system);
}

function highestKiB({ child }: ServiceProcess): number {
  return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'latin1'))?.[1]);
}
