import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

// The short benchmarks, one after the other; chaos.ts and saturation.ts take minutes and are run by name.
const SHORT = ['intake', 'drain', 'dispatch', 'bucket', 'claim', 'thumbnail', 'deliveries'];

const missed: string[] = [];
for (const name of SHORT) {
  console.log(`\n== ${name}`);
  const child = spawn(process.execPath, [fileURLToPath(new URL(`./${name}.ts`, import.meta.url))], {
    stdio: 'inherit',
  });
  const [code] = await once(child, 'exit');
  if (code !== 0) missed.push(name);
}
console.log(missed.length === 0 ? '\nevery goal met' : `\ngoals missed in: ${missed.join(', ')}`);
process.exitCode = missed.length === 0 ? 0 : 1;
