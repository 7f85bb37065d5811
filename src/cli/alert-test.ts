import { parseArgs } from 'node:util';

const DEFAULT_URL = 'http://localhost:9093';
const GROUP_WAIT_SECONDS = 30;
const TIMEOUT_MS = 10_000;

/** An alert as the Alertmanager's interface takes it, version 2. */
export interface TestAlert {
  labels: { alertname: string; severity: string; namespace: string };
  annotations: { summary: string; description: string };
  startsAt: string;
  endsAt: string;
}

/**
 * Injects a test alert into an Alertmanager.
 * @param url where the Alertmanager answers, such as `http://localhost:9093`
 * @param options.now the time, in milliseconds since the epoch
 * @param options.lastsMs after which it counts as resolved
 * @returns the alert as it was sent
 * @throws when the Alertmanager does not answer or refuses it
 */
export async function sendTestAlert(
  url: string,
  options: { now: number; lastsMs: number; alertname?: string; severity?: string },
): Promise<TestAlert> {
  const alert: TestAlert = {
    labels: {
      alertname: options.alertname ?? 'TestAlert',
      severity: options.severity ?? 'warning',
      namespace: 'monitoring',
    },
    annotations: {
      summary: 'Test of the alert path',
      description: 'An operator is testing whether alerts reach this channel. Nothing is wrong.',
    },
    startsAt: new Date(options.now).toISOString(),
    endsAt: new Date(options.now + options.lastsMs).toISOString(),
  };
  const target = new URL('/api/v2/alerts', url);
  let answer: Response;
  try {
    answer = await fetch(target, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify([alert]),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
  } catch (error) {
    const { message, cause } = error as Error;
    throw new Error(
      `No Alertmanager answers at ${target.origin} (${cause instanceof Error ? cause.message : message}). Is the port-forward to port 9093 running?`,
    );
  }
  const body = await answer.text();
  if (!answer.ok) throw new Error(`The Alertmanager at ${target.origin} refused the alert: ${answer.status} ${body}`);
  return alert;
}

/**
 * Sends the test alert and says what to expect.
 * @param args command-line arguments without the program's name
 * @returns the exit code: 0 sent, 1 not sent
 */
export async function runAlertTest(args: string[], print: (line: string) => void): Promise<number> {
  const { values } = parseArgs({ args, options: { url: { type: 'string', default: DEFAULT_URL } } });
  try {
    const alert = await sendTestAlert(values.url, { now: Date.now(), lastsMs: 5 * 60_000 });
    print(`Sent ${alert.labels.alertname} to ${values.url}.`);
    print(`Expect it in the channel within ${GROUP_WAIT_SECONDS} seconds, resolved about ten minutes later.`);
    print('If nothing arrives: docs/runbooks/platform.md#alertdeliveryfailing');
    return 0;
  } catch (error) {
    print((error as Error).message);
    return 1;
  }
}

if (import.meta.main) {
  process.exitCode = await runAlertTest(process.argv.slice(2), (line) => process.stdout.write(`${line}\n`));
}
