import { systemClock } from '../../src/domain/clock.ts';
import { createSilentLogger } from '../../src/infra/logger.ts';
import { createMetrics } from '../../src/infra/metrics.ts';
import { NotifyHub } from '../../src/infra/notify-hub.ts';
import { Presence } from '../../src/infra/presence.ts';

/** A process that only exists: it registers in the database that its argument names, and prints its id. */

const presence = new Presence({ clock: systemClock, roles: ['fetch'], version: 'test' });
const hub = new NotifyHub({
  connectionString: process.argv[2] ?? '',
  clock: systemClock,
  logger: createSilentLogger(),
  metrics: createMetrics(),
  presence,
});
await hub.start();
process.stdout.write(`${presence.processId}\n`);
process.on('SIGTERM', () => void hub.stop());
