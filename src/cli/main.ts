import { existsSync } from 'node:fs';
import { Command, CommanderError } from 'commander';
import { ConfigError } from '../infra/config.ts';
import { EmbeddedPostgresError } from '../infra/embedded/embedded-postgres-error.ts';
import { MigrationError } from '../infra/schema/migration-error.ts';
import { ProviderError } from '../provider/errors.ts';
import { CommandError, EXIT } from './command-error.ts';
import { addJobsCommands } from './jobs-commands.ts';
import { addMigrateCommand } from './migrate-command.ts';
import { addMonitoringCommands } from './monitoring-commands.ts';
import { addSetupWebhooksCommand } from './setup-webhooks-command.ts';
import { addSyncCommand } from './sync-command.ts';
import { openTerminal, type Terminal } from './terminal.ts';
import { addTokensCommands } from './tokens-commands.ts';
import { addWebhookCommands } from './webhook-commands.ts';

const ENV_FILE = '.env';

/** The command line. Exit codes: 0 done, 1 failed, 2 wrong usage or configuration. */
async function main(): Promise<void> {
  // The environment overrides the file.
  if (existsSync(ENV_FILE)) process.loadEnvFile(ENV_FILE);
  const terminal = openTerminal();
  const program = new Command('activity-sync')
    .description('Operates Activity Sync: its webhook subscription, syncs, jobs and schema.')
    .addHelpText('after', '\nExit codes: 0 done, 1 failed, 2 wrong usage or configuration.')
    .showSuggestionAfterError()
    .configureOutput({ writeErr: (text) => terminal.note(text.trimEnd()) })
    .exitOverride();
  addWebhookCommands(program, terminal);
  addSetupWebhooksCommand(program, terminal);
  addSyncCommand(program, terminal);
  addJobsCommands(program, terminal);
  addTokensCommands(program, terminal);
  addMigrateCommand(program, terminal);
  addMonitoringCommands(program, terminal);
  try {
    await program.parseAsync();
  } catch (error) {
    process.exitCode = report(error, terminal);
  }
}

function report(error: unknown, terminal: Terminal): number {
  // Commander has already said what was wrong.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  const { message } = error as Error;
  if (error instanceof ConfigError) {
    terminal.note(message);
    return EXIT.usage;
  }
  terminal.note(`Error: ${messageOf(error)}`);
  return error instanceof CommandError ? error.exitCode : EXIT.failed;
}

const FORESEEN = [CommandError, ProviderError, MigrationError, EmbeddedPostgresError];

function messageOf(error: unknown): string {
  const { message, code, stack } = error as Error & { code?: unknown };
  if (FORESEEN.some((kind) => error instanceof kind)) return message;
  // A database that is unreachable or refuses: its message suffices.
  if (typeof code === 'string') return `the database or network refused: ${message || code}`;
  return stack ?? message;
}

await main();
