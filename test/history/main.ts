/*
 * Checks histories of the queue against a model, seed by seed, on a PostgreSQL of its own (or TEST_DATABASE_URL's).
 * Run: npm run history -- --seeds 5000 [--from 1] [--together], or --seed N for one. Ends with 1 when a promise is broken.
 */
import { parseArgs } from 'node:util';
import { ADMIN_URL_VARIABLE, RUN_ID_VARIABLE, startServerForTests } from '../support/server-for-tests.ts';
import { checkSeed, type Tally } from './check-history.ts';
import { createWorld } from './world.ts';

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    seeds: { type: 'string', default: '1000' },
    from: { type: 'string', default: '1' },
    together: { type: 'boolean', default: false },
  },
});
const first = Number(values.seed ?? values.from);
const count = values.seed === undefined ? Number(values.seeds) : 1;
const { together } = values;

const server = await startServerForTests();
process.env[ADMIN_URL_VARIABLE] = server.adminUrl;
process.env[RUN_ID_VARIABLE] = server.runId;
const startedAt = performance.now();
const tally: Tally = {};
const failed: number[] = [];
try {
  const world = await createWorld();
  try {
    for (let seed = first; seed < first + count; seed += 1) {
      const failure = await checkSeed(world, seed, { together, tally });
      if (!failure) continue;
      failed.push(seed);
      console.log(failure.report);
    }
  } finally {
    await world.close();
  }
} finally {
  await server.stop();
}
for (const [what, n] of Object.entries(tally).sort()) console.log(`${what}: ${n}`);
const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
console.log(
  `${count} histories checked in ${seconds} s, ${failed.length} failed${failed.length > 0 ? `: seeds ${failed.join(', ')}` : ''}`,
);
process.exitCode = failed.length === 0 ? 0 : 1;
