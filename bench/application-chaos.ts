import { runApplicationChaos } from '../test/support/application-chaos.ts';
import { startBenchPostgres } from './support/postgres.ts';

// 10,000 changes while the service is killed ten times, and the application that receives them five times.
const ACTIVITIES = 6500;
const CHANGES = 10_000;

const postgres = await startBenchPostgres();
try {
  const result = await runApplicationChaos({
    databaseUrl: await postgres.createDatabase(),
    activities: ACTIVITIES,
    serviceKills: 10,
    applicationKills: 5,
    say: (line) => console.log(line),
  });
  console.table(result);
  const { changes, gaps, invented, differences, undelivered, outOfOrder } = result;
  process.exitCode = changes >= CHANGES && gaps + invented + differences + undelivered + outOfOrder === 0 ? 0 : 1;
} finally {
  await postgres.stop();
}
