import { writeFile } from 'node:fs/promises';
import { VARIABLES } from '../../src/infra/config-variables.ts';

/** The text of .env.example: every variable with its meaning, commented out with its example. */
export function envExample(): string {
  const lines = Object.entries(VARIABLES).map(([name, { meaning, example }]) => `# ${meaning}\n# ${name}=${example}\n`);
  return `# Copy to .env and fill in. Written by npm run env:example from src/infra/config-variables.ts.\n\n${lines.join('\n')}`;
}

if (import.meta.main) await writeFile(new URL('../../.env.example', import.meta.url), envExample());
