import type { Command } from 'commander';
import type { Terminal } from './terminal.ts';

/** The commands about the monitoring stack. Each loads what it needs by itself: the service runs without it. */
export function addMonitoringCommands(program: Command, terminal: Terminal): void {
  const print = (line: string) => terminal.print(line);
  program
    .command('alert-test')
    .description('send a test alert through the Alertmanager to its channel')
    .option('--url <url>', 'where the Alertmanager answers (default: http://localhost:9093)')
    .action(async (options: Record<string, string>) => {
      const { runAlertTest } = await import('./alert-test.ts');
      process.exitCode = await runAlertTest(argumentsOf(options), print);
    });
  program
    .command('uptime-provision')
    .description('bring the uptime monitor to the declared state')
    .requiredOption('--password-file <file>', 'file with the password of its admin account')
    .requiredOption('--webhook-url-file <file>', 'file with the webhook URL of the channel')
    .option('--url <url>', 'where the uptime monitor answers')
    .option('--username <name>', 'its admin account')
    .action(async (options: Record<string, string>) => {
      const { runUptimeProvision } = await import('./uptime-provision.ts');
      process.exitCode = await runUptimeProvision(argumentsOf(options), print);
    });
}

function argumentsOf(options: Record<string, string>): string[] {
  return Object.entries(options).flatMap(([name, value]) => [
    `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`,
    value,
  ]);
}
