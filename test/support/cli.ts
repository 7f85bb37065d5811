import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { expect } from '@jest/globals';
import { ADMIN_TOKEN, ENCRYPTION_KEY, VERIFY_TOKEN } from './service.ts';

const MAIN = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url));
const SECRETS = [ADMIN_TOKEN, VERIFY_TOKEN, ENCRYPTION_KEY, 'simulator-secret'];

/** How a command ended, and what it printed. */
export interface Outcome {
  code: number | null;
  out: string;
  err: string;
}

/** Starts a command as its own process. */
export function startCli(args: string[], environment: Record<string, string | undefined>) {
  const set = Object.entries(environment).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return spawn(process.execPath, [MAIN, ...args], {
    cwd: tmpdir(), // no .env of whoever runs the tests
    env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', ...Object.fromEntries(set) },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

/** Runs a command to its end. What it prints never holds a secret. */
export async function runCli(args: string[], environment: Record<string, string | undefined>): Promise<Outcome> {
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
