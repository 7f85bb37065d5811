import type { Command } from 'commander';
import { runAlertTest } from './alert-test.ts';
import type { Terminal } from './terminal.ts';

/** The command about the monitoring stack. */
export function addMonitoringCommands(program: Command, terminal: Terminal): void {
  program
    .command('alert-test')
    .description('send a test alert through the Alertmanager to its channel')
    .option('--url <url>', 'where the Alertmanager answers (default: http://localhost:9093)')
    .action(async ({ url }: { url?: string }) => {
      process.exitCode = await runAlertTest(url === undefined ? [] : ['--url', url], (line) => terminal.print(line));
    });
}
