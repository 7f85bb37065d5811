import { readFile } from 'node:fs/promises';
import { parseEnv } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { readConfig } from '../../src/infra/config.ts';
import { TO_SET } from '../../src/infra/config-variables.ts';
import { envExample } from '../support/write-env-example.ts';

describe('.env.example', () => {
  it('names every variable with its meaning (npm run env:example writes it)', async () => {
    expect(await readFile(new URL('../../.env.example', import.meta.url), 'utf8')).toBe(envExample());
  });

  it('sets only what everyone must set, each to a placeholder that a start refuses by its name', () => {
    const env = parseEnv(envExample());
    expect(Object.keys(env).sort()).toEqual([...TO_SET].sort());
    let message = '';
    try {
      readConfig(env);
    } catch (error) {
      message = (error as Error).message;
    }
    expect(message.split('\n')).toEqual([
      'The service cannot start, 5 variables need attention:',
      ...TO_SET.map((name) => expect.stringContaining(`  ${name} still has the placeholder <`)),
    ]);
  });
});
