import type { Command } from 'commander';
import { readSecrets, readVariables } from '../infra/config.ts';
import { createLogger } from '../infra/logger.ts';
import { migrate } from '../infra/migrate.ts';
import { openStorage } from '../infra/storage.ts';
import type { Terminal } from './terminal.ts';

/** `migrate`: needs only the database, none of the provider's variables. */
export function addMigrateCommand(program: Command, terminal: Terminal): void {
  program
    .command('migrate')
    .description('bring the database to this version’s schema; a start does so too unless MIGRATE_ON_START is false')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      `
Uses MIGRATE_DATABASE_URL, DATABASE_URL, or the embedded PostgreSQL under DATA_DIR. Any number may run at once.

Example:
  DATABASE_URL=postgres://user:password@db.example.com/activity_sync npm run migrate`,
    )
    .action(async (options: { json?: boolean }) => {
      const config = readVariables([
        'DATABASE_URL',
        'MIGRATE_DATABASE_URL',
        'DATA_DIR',
        'TOKEN_ENCRYPTION_KEY',
        'LOG_LEVEL',
      ]);
      const logger = createLogger({
        level: options.json ? 'error' : config.LOG_LEVEL,
        secrets: readSecrets(),
      });
      const storage = await openStorage(config, logger);
      const { migrations, newer } = await migrate({ ...storage, logger }).finally(() => storage.close());
      if (options.json) terminal.printJson({ migrations, newer });
      else if (newer.length > 0)
        terminal.print(
          `A newer release made the schema (${newer.join(', ')}); it was left unchanged and serves this one.`,
        );
      else terminal.print(`The schema is up to date: the last migration is ${migrations.at(-1)}.`);
    });
}
