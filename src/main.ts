import { startService } from './compose.ts';
import { ConfigError, findUnknownVariables, readConfig, readSecrets } from './infra/config.ts';
import { EmbeddedPostgresError } from './infra/embedded/embedded-postgres-error.ts';
import { ListenError } from './infra/http-server.ts';
import { createLogger, type Logger, redactSecrets } from './infra/logger.ts';
import { migrate } from './infra/migrate.ts';
import { MigrationError } from './infra/schema/migration-error.ts';
import { hearStopSignal } from './infra/stop-signal.ts';
import { openStorage } from './infra/storage.ts';

/** Exit codes: 0 stopped on request, 1 failed, 2 refused to start because of its configuration. */
const EXIT_CONFIG = 2;
const STOP_DEADLINE_MS = 25_000;

async function main(): Promise<void> {
  const config = readConfig();
  const logger = createLogger({ level: config.LOG_LEVEL, secrets: readSecrets() });
  for (const { name, nearest } of findUnknownVariables())
    logger.warn('variable unknown, ignored', { component: 'main', variable: name, nearest });
  // From the beginning: an interrupted start must also close what it has opened.
  const stop = hearStopSignal(() => {
    logger.info('stopping: no new work, running jobs finish or are released', { component: 'main' });
    endAfterDeadline(logger);
  });
  // Without its database the process has nothing to do; its supervisor restarts it.
  const storage = await openStorage(config, logger, () => process.exit(1));
  let migrated = false;
  try {
    const migration = config.MIGRATE_ON_START ? migrate({ ...storage, logger }) : Promise.resolve();
    migrated = await Promise.race([migration.then(() => true), stop.untilAsked.then(() => false)]);
    if (migrated) {
      const service = await startService({ config, logger, ...storage });
      await stop.untilAsked;
      await service.stop();
    }
  } finally {
    await storage.close();
  }
  // A running migration would keep the process alive: it may wait a long time for another one.
  if (!migrated) process.exit();
}

function endAfterDeadline(logger: Logger): void {
  const deadline = setTimeout(() => {
    logger.error('stop took too long, ending now; other workers reclaim the running jobs', { component: 'main' });
    process.exit(1);
  }, STOP_DEADLINE_MS);
  deadline.unref();
}

main().catch((error: unknown) => {
  const foreseen = [ConfigError, MigrationError, EmbeddedPostgresError, ListenError].some(
    (kind) => error instanceof kind,
  );
  const text = foreseen ? (error as Error).message : ((error as Error).stack ?? String(error));
  process.stderr.write(`${redactSecrets(text, readSecrets())}\n`);
  process.exitCode = error instanceof ConfigError ? EXIT_CONFIG : 1;
});
