/*
 * Webhook deliveries a second, answered 200 once durable, beside three plain Express servers: one that
 * only answers, one INSERT for each request, one pg-boss send for each request. Alternating in one run, ratios by round.
 * Run: node bench/intake.ts [seconds of a round]
 */
import { freePort, startServiceProcess } from '../test/support/service-process.ts';
import { median, printGoal, printTable } from './support/figures.ts';
import { type LoadResult, runLoad } from './support/load-generator.ts';
import { startPlainServer } from './support/plain-server.ts';
import { startBenchPostgres } from './support/postgres.ts';
import { serviceEnvironment } from './support/service-environment.ts';

const CONNECTIONS = 32;
const ROUNDS = 7;
const ROUND_MS = Number(process.argv[2] ?? 2) * 1000;
const IDS_OF_A_ROUND = 1_000_000;
const FIRST_ID = 10_000_000_000;
const NOTHING = 'Express, answers 200';
const INSERT = 'Express, INSERT per request';
const SEND = 'Express, pg-boss send per request';
const OURS = 'this service';

const postgres = await startBenchPostgres();
const url = await postgres.createDatabase();
const port = await freePort();
const service = startServiceProcess(serviceEnvironment(url, port, { SERVICE_ROLES: 'web' }), { quiet: true });
const plain = await postgres.createDatabase(false);
const [nothing, insert, send] = await Promise.all(
  (['nothing', 'insert', 'send'] as const).map((kind) => startPlainServer(kind, plain)),
);
try {
  await service.ready();
  const targets = [
    { name: NOTHING, port: nothing?.port ?? 0, path: '/webhook' },
    { name: INSERT, port: insert?.port ?? 0, path: '/webhook' },
    { name: SEND, port: send?.port ?? 0, path: '/webhook' },
    { name: OURS, port, path: '/api/provider/webhook' },
  ];
  const results = new Map<string, LoadResult[]>(targets.map(({ name }) => [name, []]));
  for (let round = 0; round <= ROUNDS; round += 1) {
    for (const [n, { name, ...target }] of targets.entries()) {
      const firstId = FIRST_ID + (round * targets.length + n) * IDS_OF_A_ROUND;
      const result = await runLoad({ ...target, connections: CONNECTIONS, durationMs: ROUND_MS, firstId });
      if (round > 0) results.get(name)?.push(result); // the first round warms up
    }
  }
  const all = (name: string, figure: (result: LoadResult) => number) => (results.get(name) ?? []).map(figure);
  const rates = (name: string) => all(name, ({ perSecond }) => perSecond);
  // Within a round both see the same load from other programs.
  const ratio = (name: string, to: string) =>
    median(rates(name).map((rate, round) => rate / (rates(to)[round] ?? Number.NaN)));
  console.log(`intake: ${CONNECTIONS} connections, medians of ${ROUNDS} rounds of ${ROUND_MS / 1000} s`);
  printTable([
    ['', 'requests/s', 'ratio', 'p50 ms', 'p99 ms', 'failed'],
    ...targets.map(({ name }) => [
      name,
      median(rates(name)).toFixed(0),
      ratio(name, NOTHING).toFixed(2),
      median(all(name, ({ p50Ms }) => p50Ms)).toFixed(1),
      median(all(name, ({ p99Ms }) => p99Ms)).toFixed(1),
      all(name, ({ failed }) => failed).reduce((sum, failed) => sum + failed, 0),
    ]),
  ]);
  console.log(`beside a send per request: ${ratio(OURS, SEND).toFixed(2)} times`);
  console.log(`beside one INSERT per request: ${ratio(OURS, INSERT).toFixed(2)} times`);
  printGoal('at least 3.5 times a send per request', ratio(OURS, SEND) >= 3.5);
  printGoal('at least as many as Express with one INSERT per request', ratio(OURS, INSERT) >= 1);
  printGoal('p99 under 25 ms', median(all(OURS, ({ p99Ms }) => p99Ms)) < 25);
} finally {
  await service.end('SIGTERM');
  await Promise.all([nothing, insert, send].map((server) => server?.stop()));
  await postgres.stop();
}
