import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { expect } from '@jest/globals';
import { ADMIN_TOKEN, ENCRYPTION_KEY, type Rig, startRig, testEnvironment, VERIFY_TOKEN } from './service.ts';
import { freePort, MACHINE_ENVIRONMENT } from './service-process.ts';

const MAIN = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url));
const SECRETS = [ADMIN_TOKEN, VERIFY_TOKEN, ENCRYPTION_KEY, 'simulator-secret'];

type Environment = Record<string, string | undefined>;

/** How a command ended, and what it printed. */
export interface Outcome {
  code: number | null;
  out: string;
  err: string;
}

/** Starts a command as its own process. */
export function startCli(args: string[], environment: Environment) {
  const set = Object.entries(environment).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return spawn(process.execPath, [MAIN, ...args], {
    cwd: tmpdir(), // no .env of the developer
    env: { ...MACHINE_ENVIRONMENT, ...Object.fromEntries(set) },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

/** Runs a command until it ends. Its output never contains a secret. */
export async function runCli(args: string[], environment: Environment): Promise<Outcome> {
  const child = startCli(args, environment);
  let out = '';
  let err = '';
  child.stdout.on('data', (chunk: Buffer) => {
    out += chunk;
  });
  child.stderr.on('data', (chunk: Buffer) => {
    err += chunk;
  });
  await once(child, 'close');
  for (const secret of SECRETS) expect(out + err).not.toContain(secret);
  return { code: child.exitCode, out, err };
}

/** A service at the address that its environment names, so that commands find it. */
export interface CliRig {
  rig: Rig;
  env: Record<string, string>;
  run(args: string[], environment?: Environment): Promise<Outcome>;
  /** An environment without a running service. */
  away(changes?: Environment): Promise<Environment>;
}

export async function startCliRig(): Promise<CliRig> {
  const address = async () => {
    const port = String(await freePort());
    return { PORT: port, NEXT_PUBLIC_BASE_URL: `http://127.0.0.1:${port}` };
  };
  const here = await address();
  const rig = await startRig({ env: here, subscriptions: [] });
  const env = testEnvironment(rig.simulator.url, here);
  return {
    rig,
    env,
    run: (args, environment = env) => runCli(args, environment),
    away: async (changes = {}) => ({ ...env, ...(await address()), DATABASE_URL: rig.database.url, ...changes }),
  };
}
