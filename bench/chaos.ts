import { runChaos } from '../test/support/chaos.ts';

// 10,000 events while the service is killed ten times and the database three times.
const result = await runChaos({ events: 10_000, serviceKills: 10, databaseKills: 3, say: (line) => console.log(line) });
console.table(result);
process.exitCode = result.stored === 10_000 && result.unfinished.length === 0 && result.doubled === 0 ? 0 : 1;
