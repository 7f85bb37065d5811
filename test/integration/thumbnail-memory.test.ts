import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';

const PROGRAM = fileURLToPath(new URL('../support/thumbnail-memory.ts', import.meta.url));
const MAX_ABOVE_IDLE_MB = 64;
// One step north, one step east, and back: two characters for each point.
const points = (count: number) => 'AA@@'.repeat(count / 2);

async function measure(encoded: string, sizePx: number) {
  const child = spawn(process.execPath, [PROGRAM, String(sizePx)], { stdio: ['pipe', 'pipe', 'inherit'] });
  const output = text(child.stdout);
  child.stdin.end(encoded);
  const [code] = await once(child, 'close');
  expect(code).toBe(0);
  return JSON.parse(await output) as { aboveIdleMb: number; ms: number; drawnPoints: number };
}

describe('a picture of a hostile route', () => {
  it.each([
    ['half a million points', points(500_000), 256],
    ['a million points, the longest that is drawn', points(1_048_576), 256],
    ['two million points in 4 MB', points(2_000_000), 256],
    ['a million points over the whole world', '_ibE_ibE~hbE~hbE'.repeat(65_536), 256],
    ['one number of 2 MB', `${'~'.repeat(2_000_000)}??`, 256],
    ['half a million points, on the largest picture', points(500_000), 2048],
  ])('needs at most 64 MB above idle for %s', async (_case, encoded, sizePx) => {
    const { aboveIdleMb } = await measure(encoded, sizePx);
    expect(aboveIdleMb).toBeLessThan(MAX_ABOVE_IDLE_MB);
  });

  it('is drawn from the points that a picture can show', async () => {
    const { drawnPoints } = await measure('_ibE_ibE~hbE~hbE'.repeat(65_536), 256);
    expect(drawnPoints).toBeGreaterThan(1);
  });
});
