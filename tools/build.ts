import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { cacheFolder, NOT_CHECKED, type Program, readDefinitions, readPrograms } from './programs.ts';

/**
 * Builds the programs that `npm run check:stack` needs, and downloads the custom resource definitions. Each is built
 * once for its version and then kept. Exits with 1 and the compiler's output when one cannot be built.
 */

const FOLDER = import.meta.dirname;
const say = (line: string) => process.stdout.write(`${line}\n`);

for (const line of NOT_CHECKED) say(`not checked: ${line}`);
const failed = [
  ...readPrograms()
    .filter((program) => !isBuilt(program) && !build(program))
    .map(({ name }) => name),
  ...readDefinitions()
    .filter(({ module, version }) => !download(module, version))
    .map(({ module }) => module),
];
if (failed.length > 0) {
  say(`could not be built: ${failed.join(', ')}; the errors are above`);
  process.exitCode = 1;
}

function isBuilt(program: Program): boolean {
  const built = program.binaries.every((binary) => existsSync(join(cacheFolder(program), binary)));
  if (built) say(`${program.name} ${program.version}: kept from an earlier build`);
  return built;
}

function build(program: Program): boolean {
  say(`${program.name} ${program.version}: being built …`);
  const startedAt = performance.now();
  const kept = cacheFolder(program);
  const fresh = `${kept}.part`; // an interrupted build leaves nothing that looks finished
  rmSync(fresh, { recursive: true, force: true });
  mkdirSync(fresh, { recursive: true });
  // Two compilers at a time: the largest packages take 1.5 GB each.
  const args = ['build', '-p', '2', '-tags', program.tags, '-ldflags', program.ldflags, '-o', `${fresh}/`, 'tool'];
  if (!runGo(args, join(FOLDER, program.name))) return false;
  rmSync(kept, { recursive: true, force: true });
  renameSync(fresh, kept);
  say(`${program.name} ${program.version}: built in ${Math.round((performance.now() - startedAt) / 1000)} s`);
  return true;
}

function download(module: string, version: string): boolean {
  return runGo(['mod', 'download', `${module}@${version}`], FOLDER);
}

function runGo(args: string[], cwd: string): boolean {
  const { status, error } = spawnSync('go', args, { cwd, stdio: ['ignore', 'inherit', 'inherit'] });
  if (error) say(`go ${args[0]}: ${error.message}`);
  return status === 0;
}
