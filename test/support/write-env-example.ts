import { writeFile } from 'node:fs/promises';
import { TO_SET, VARIABLES, type Variable } from '../../src/infra/config-variables.ts';

const TOP = `# Copy to .env. Written by npm run env:example from src/infra/config-variables.ts.

# ---- Set these five ----
# The service does not start while a <placeholder> is left. "openssl rand -hex 24" prints a random string.
`;

const REST = `# ---- The rest: uncomment what you need ----
# What is shown without a <placeholder> is the default or an example.
`;

const COMPOSE = `# ---- For compose.yaml only ----
# It sets DATABASE_URL and PORT, and needs TOKEN_ENCRYPTION_KEY above and this one.

# password of the PostgreSQL that Compose starts: letters and digits
# POSTGRES_PASSWORD=<password>
`;

/** The text of .env.example: what must be set, then every other variable, commented out; each with its meaning. */
export function envExample(): string {
  const isToSet = (name: string) => TO_SET.some((one) => one === name);
  const all = Object.entries<Variable>(VARIABLES);
  const toSet = all.filter(([name]) => isToSet(name));
  const rest = all.filter(([name]) => !isToSet(name));
  return [
    TOP,
    ...toSet.map(([name, { meaning, example }]) => `# ${meaning}\n${name}=${example}\n`),
    REST,
    ...rest.map(([name, { meaning, example }]) => `# ${meaning}\n# ${name}=${example}\n`),
    COMPOSE,
  ].join('\n');
}

if (import.meta.main) await writeFile(new URL('../../.env.example', import.meta.url), envExample());
