import { readFile } from 'node:fs/promises';
import { describe, expect, it } from '@jest/globals';
import { envExample } from '../support/write-env-example.ts';

describe('.env.example', () => {
  it('names every variable with its meaning (npm run env:example writes it)', async () => {
    expect(await readFile(new URL('../../.env.example', import.meta.url), 'utf8')).toBe(envExample());
  });
});
