import type { Command } from 'commander';
import { readVariables } from '../infra/config.ts';
import { createLogger } from '../infra/logger.ts';
import { migrate, migrationNames } from '../infra/migrate.ts';
import { openStorage } from '../infra/storage.ts';
import type { Terminal } from './terminal.ts';

/** `migrate`: needs the database alone, none of the provider's variables. */
export function addMigrateCommand(program: Command, terminal: Terminal): void {
  program
    .command('migrate')
    .description('bring the database to this version’s schema; a start does so too')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      `
Uses DATABASE_URL, or the embedded PostgreSQL under DATA_DIR. Any number may run at once.

Example:
  DATABASE_URL=postgres://user:password@db.example.com/activity_sync npm run migrate`,
    )
    .action(async (options: { json?: boolean }) => {
      const config = readVariables(['DATABASE_URL', 'DATA_DIR', 'TOKEN_ENCRYPTION_KEY', 'LOG_LEVEL']);
      const logger = createLogger({
        level: options.json ? 'error' : config.LOG_LEVEL,
        secrets: [config.DATABASE_URL, config.TOKEN_ENCRYPTION_KEY],
      });
      const storage = await openStorage(config, logger);
      try {
        await migrate({ connectionString: storage.connectionString, logger });
      } finally {
        await storage.close();
      }
      const migrations = await migrationNames();
      if (options.json) terminal.printJson({ migrations });
      else
        terminal.print(`The schema is up to date: ${migrations.length} migrations, the last one ${migrations.at(-1)}.`);
    });
}
