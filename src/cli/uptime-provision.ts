import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { parse } from 'yaml';
import { provisionUptime, type UptimeState } from '../monitoring/provision-uptime.ts';

const K8S = join(import.meta.dirname, '../../k8s');
const USAGE = `Brings the uptime monitor to the state of k8s/monitoring/uptime-monitors.yaml.

  npm run uptime:provision -- --password-file <file> --webhook-url-file <file> [--url <url>] [--username <name>]

  --url               where the uptime monitor answers (https://<UPTIME_HOST> of the settings)
  --username          its admin account, created on a first visit (admin)
  --password-file     file with the account's password
  --webhook-url-file  file with the channel's webhook URL
`;

/**
 * Reads the declared state and brings the uptime monitor to it, printing each change.
 * @param args command-line arguments without the program's name
 * @returns the exit code: 0 done, 1 refused, 2 wrong arguments
 */
export async function runUptimeProvision(args: string[], print: (line: string) => void): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      url: { type: 'string' },
      username: { type: 'string', default: 'admin' },
      'password-file': { type: 'string' },
      'webhook-url-file': { type: 'string' },
    },
  });
  const { 'password-file': passwordFile, 'webhook-url-file': webhookUrlFile } = values;
  if (passwordFile === undefined || webhookUrlFile === undefined) {
    print(USAGE);
    return 2;
  }
  const settings = parse(readFileSync(join(K8S, 'flux/settings.yaml'), 'utf8')).data as Record<string, string>;
  const state = readDeclaredState(settings, firstLine(webhookUrlFile));
  const url = values.url ?? `https://${settings.UPTIME_HOST}`;
  try {
    const changes = await provisionUptime({ url, username: values.username, password: firstLine(passwordFile) }, state);
    for (const change of changes) print(change);
    print(
      changes.length === 0 ? 'Nothing to change.' : 'Now use Test on the notification once to see it in the channel.',
    );
    return 0;
  } catch (error) {
    print((error as Error).message);
    return 1;
  }
}

/** The declared monitors with the cluster's hosts filled in. */
export function readDeclaredState(settings: Record<string, string>, webhookUrl: string): UptimeState {
  const text = readFileSync(join(K8S, 'monitoring/uptime-monitors.yaml'), 'utf8').replaceAll(
    /\$\{(\w+)\}/g,
    (placeholder, name: string) => settings[name] ?? placeholder,
  );
  const declared = parse(text) as { notification: string; monitors: UptimeState['monitors'] };
  return { notification: { name: declared.notification, webhookUrl }, monitors: declared.monitors };
}

function firstLine(file: string): string {
  return readFileSync(file, 'utf8').split('\n')[0]?.trim() ?? '';
}

if (import.meta.main) {
  process.exitCode = await runUptimeProvision(process.argv.slice(2), (line) => process.stdout.write(`${line}\n`));
}
