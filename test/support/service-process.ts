import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';

/** What a process started by a test needs of this one's environment; the service's settings are not among it. */
export const MACHINE_ENVIRONMENT: Record<string, string> = Object.fromEntries(
  ['PATH', 'HOME', 'NODE_COMPILE_CACHE'].flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value]];
  }),
);
const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

/** The service as a process of its own, started as production starts it. */
export interface ServiceProcess {
  readonly child: ChildProcess;
  readonly url: string;
  /** What it has printed so far. */
  output(): string;
  /** Resolves when it answers on /healthz. */
  ready(): Promise<void>;
  /** Ends it by a signal and waits until it is gone. @returns its exit code, null when a signal ended it */
  end(signal: NodeJS.Signals): Promise<number | null>;
}

/** @param options.quiet discards its log except for errors: reading it would distort the measurement */
export function startServiceProcess(env: Record<string, string>, options: { quiet?: boolean } = {}): ServiceProcess {
  const child = spawn(process.execPath, ['--max-semi-space-size=8', MAIN], {
    env: { ...MACHINE_ENVIRONMENT, ...env },
    stdio: ['ignore', options.quiet ? 'ignore' : 'pipe', 'pipe'],
  });
  let printed = '';
  const keep = (chunk: Buffer) => {
    printed = (printed + chunk.toString()).slice(-200_000);
  };
  child.stdout?.on('data', keep);
  child.stderr?.on('data', keep);
  const gone = once(child, 'close');
  const url = `http://127.0.0.1:${env.PORT}`;
  return {
    child,
    url,
    output: () => printed,
    ready: async () => {
      for (;;) {
        if (child.exitCode !== null || child.signalCode !== null) throw new Error(`The service ended: ${printed}`);
        const answer = await fetch(`${url}/healthz`).catch(() => undefined);
        await answer?.arrayBuffer();
        if (answer?.ok) return;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
    end: async (signal) => {
      child.kill(signal);
      await gone;
      return child.exitCode;
    },
  };
}

/** A port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (typeof address !== 'object' || address === null) throw new Error('no port');
  return address.port;
}
