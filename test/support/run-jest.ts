import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

/**
 * What `npm test` runs: Jest with the given arguments, then one closing line `N passed, N failed`. Ends
 * with 1 when a test or a test file failed, when no test ran, or when Jest did not exit on its own.
 */

const COMPILE_CACHE = fileURLToPath(new URL('../../node_modules/.cache/compiled', import.meta.url));
const EXIT_PATIENCE_MS = 10_000;
const POLL_MS = 200;

/** The part of Jest's JSON report that is counted. */
interface JestReport {
  numPassedTests: number;
  numFailedTests: number;
  numRuntimeErrorTestSuites: number;
  testResults: { testExecError?: unknown }[];
}

const folder = await mkdtemp(join(tmpdir(), 'jest-report-'));
try {
  const reportFile = join(folder, 'report.json');
  const jest = startJest(process.argv.slice(2), reportFile);
  const exitCode = await waitForEnd(jest, reportFile);
  const report = existsSync(reportFile) ? (JSON.parse(await readFile(reportFile, 'utf8')) as JestReport) : undefined;
  const passed = report?.numPassedTests ?? 0;
  // A file that could not run, or left something open, has no failed test of its own to be counted by.
  const failed = report === undefined ? 1 : report.numFailedTests + report.numRuntimeErrorTestSuites;
  process.exitCode = exitCode === 0 && failed === 0 && passed > 0 ? 0 : 1;
  process.stdout.write(`${passed} passed, ${failed} failed\n`);
} finally {
  await rm(folder, { recursive: true, force: true });
}

function startJest(args: string[], reportFile: string): ChildProcess {
  const jestFile = createRequire(import.meta.url).resolve('jest/bin/jest');
  const hush = new URL('./hush-vm-modules.js', import.meta.url).href;
  const nodeOptions = [process.env.NODE_OPTIONS, '--experimental-vm-modules', `--import=${hush}`];
  const child = spawn(process.execPath, [jestFile, '--json', `--outputFile=${reportFile}`, ...args], {
    stdio: 'inherit',
    // The service and its command line are started some hundred times: half of that is compiling their code.
    env: {
      ...process.env,
      NODE_OPTIONS: nodeOptions.filter(Boolean).join(' '),
      NODE_COMPILE_CACHE: COMPILE_CACHE,
    },
  });
  // Ctrl-C reaches Jest as well, which clears up; this process waits for it.
  process.on('SIGINT', () => undefined);
  process.on('SIGTERM', () => child.kill('SIGTERM'));
  return child;
}

/** Waits for Jest to end. One that has reported and still runs is held open by something, and is stopped. */
async function waitForEnd(child: ChildProcess, reportFile: string): Promise<number> {
  const ended = new Promise<number>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve(code ?? 1));
  });
  const overdue = new AbortController();
  const first = await Promise.race([ended, waitUntilOverdue(reportFile, overdue.signal)]);
  overdue.abort();
  if (first !== 'overdue') return first;
  process.stderr.write(`Jest still runs ${EXIT_PATIENCE_MS / 1000} s after its report: something was left open.\n`);
  child.kill('SIGTERM');
  await ended;
  return 1;
}

async function waitUntilOverdue(reportFile: string, signal: AbortSignal): Promise<'overdue'> {
  const ignoreAbort = () => undefined;
  while (!existsSync(reportFile) && !signal.aborted) await delay(POLL_MS, undefined, { signal }).catch(ignoreAbort);
  await delay(EXIT_PATIENCE_MS, undefined, { signal }).catch(ignoreAbort);
  return 'overdue';
}
