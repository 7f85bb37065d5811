import type { z } from 'zod';
import { COMMAND_VARIABLES, VARIABLES, type Variable } from './config-variables.ts';
import { findNearestName } from './nearest-name.ts';

type Values = { [K in keyof typeof VARIABLES]: z.output<(typeof VARIABLES)[K]['schema']> };
/** A process's configuration. This file is the only reader of process.env. */
export type Config = Readonly<Values>;

/** The configuration is wrong; the message names every wrong variable and contains no value. */
export class ConfigError extends Error {
  override name = 'ConfigError';
  readonly code = 'CONFIG';
}

type Environment = Record<string, string | undefined>;

/**
 * Reads and checks the configuration. An empty variable counts as unset.
 * @param env process.env by default
 * @throws ConfigError naming every wrong or missing variable with its meaning and an example
 */
export function readConfig(env: Environment = process.env): Config {
  const { values, wrong } = readEach(VARIABLES, env);
  const config = values as Values;
  const isMissing = (name: keyof Values) =>
    config[name] === undefined && !wrong.some((line) => line.startsWith(`  ${name} `));
  if (config.DATABASE_URL !== undefined && isMissing('TOKEN_ENCRYPTION_KEY')) {
    const { meaning, example } = VARIABLES.TOKEN_ENCRYPTION_KEY;
    wrong.push(
      `  TOKEN_ENCRYPTION_KEY is missing: ${meaning}; required with DATABASE_URL. Example: TOKEN_ENCRYPTION_KEY=${example}`,
    );
  }
  if (config.MIGRATE_DATABASE_URL !== undefined && !env.DATABASE_URL?.trim()) {
    const { meaning, example } = VARIABLES.DATABASE_URL;
    wrong.push(`  MIGRATE_DATABASE_URL is set without DATABASE_URL: ${meaning}. Example: DATABASE_URL=${example}`);
  }
  if (
    values.SERVICE_ROLES !== undefined &&
    config.SERVICE_ROLES.includes('web') &&
    isMissing('PROVIDER_VERIFY_TOKEN')
  ) {
    const { meaning, example } = VARIABLES.PROVIDER_VERIFY_TOKEN;
    wrong.push(`  PROVIDER_VERIFY_TOKEN is missing: ${meaning}. Example: PROVIDER_VERIFY_TOKEN=${example}`);
  }
  if (config.ADMIN_READ_TOKEN !== undefined && config.ADMIN_READ_TOKEN === config.ADMIN_TOKEN) {
    const { meaning, example } = VARIABLES.ADMIN_READ_TOKEN;
    wrong.push(`  ADMIN_READ_TOKEN is the same as ADMIN_TOKEN: ${meaning}. Example: ADMIN_READ_TOKEN=${example}`);
  }
  for (const { name, nearest, isTypo } of findUnknownVariables(env))
    if (isTypo) wrong.push(`  ${name} is not a variable of the service. Did you mean ${nearest}?`);
  if (wrong.length > 0) throw new ConfigError(messageOf('The service cannot start', wrong));
  return config;
}

/** A variable that is set and looks like one of the service's, but is not. */
export interface UnknownVariable {
  name: string;
  nearest: string;
  /** So close to a known one that it must be a typo; readConfig refuses it. */
  isTypo: boolean;
}

const OWN_PREFIX = 'PROVIDER_';
const TYPO_DISTANCE = 2;

/**
 * Finds the variables PROVIDER_… that nothing reads. One that is not a typo may belong to another program: Kubernetes
 * sets PROVIDER_SERVICE_HOST in every pod beside a Service named provider.
 */
export function findUnknownVariables(env: Environment = process.env): UnknownVariable[] {
  const known = Object.keys({ ...VARIABLES, ...COMMAND_VARIABLES }).filter((name) => name.startsWith(OWN_PREFIX));
  return Object.keys(env)
    .filter((name) => name.startsWith(OWN_PREFIX) && env[name]?.trim() && !known.includes(name))
    .map((name) => {
      const nearest = findNearestName(name, known);
      return { name, nearest: nearest.name, isTypo: nearest.distance < TYPO_DISTANCE };
    });
}

/** Whether npm runs this process, as the script of a package. */
export function isRunByNpm(env: Environment = process.env): boolean {
  return env.npm_lifecycle_event !== undefined;
}

/** Node's own options, those of the command line last: of several with one name the last one counts. */
export function readNodeOptions(env: Environment = process.env): string[] {
  return [...(env.NODE_OPTIONS ?? '').split(/\s+/), ...process.execArgv];
}

type CommandValues = Values & {
  [K in keyof typeof COMMAND_VARIABLES]: z.output<(typeof COMMAND_VARIABLES)[K]['schema']>;
};

/**
 * Reads what one command needs, and nothing else.
 * @param required must be set, unless they have a default
 * @param optional may be unset
 * @throws ConfigError as readConfig
 */
export function readVariables<R extends keyof CommandValues, O extends keyof CommandValues = never>(
  required: readonly R[],
  optional: readonly O[] = [],
  env: Environment = process.env,
): Pick<CommandValues, R> & Partial<Pick<CommandValues, O>> {
  const all: Record<string, Variable> = { ...VARIABLES, ...COMMAND_VARIABLES };
  const named = [...required, ...optional.filter((name) => env[name]?.trim())];
  const { values, wrong } = readEach(Object.fromEntries(named.map((name) => [name, all[name] as Variable])), env);
  if (wrong.length > 0) throw new ConfigError(messageOf('The command cannot run', wrong));
  return values as Pick<CommandValues, R> & Partial<Pick<CommandValues, O>>;
}

/**
 * The values of all secret variables that are set, and the parts of those that have several: each key of a
 * list, the password in a database's address. None of them may be printed.
 */
export function readSecrets(env: Environment = process.env): string[] {
  const secrets = Object.entries<Variable>({ ...VARIABLES, ...COMMAND_VARIABLES })
    .filter(([, { secret }]) => secret)
    .flatMap(([name]) => env[name]?.trim() || [])
    .filter((value) => !WHOLE_PLACEHOLDER.test(value));
  const passwords = secrets.map((secret) => URL.parse(secret)?.password ?? '');
  return [...new Set([...secrets, ...secrets.flatMap((secret) => secret.split(',')), ...passwords])].filter(Boolean);
}

function readEach(variables: Record<string, Variable>, env: Environment) {
  const values: Record<string, unknown> = {};
  const wrong: string[] = [];
  for (const [name, { schema, meaning, example }] of Object.entries(variables)) {
    const given = env[name]?.trim() ? env[name] : undefined;
    const placeholder = given === undefined ? undefined : findPlaceholder(given, example);
    const result = schema.safeParse(given);
    if (placeholder !== undefined) wrong.push(`  ${name} still has the placeholder ${placeholder}: ${meaning}`);
    else if (result.success) values[name] = result.data;
    else {
      const problem = given === undefined ? 'is missing' : (result.error.issues[0]?.message ?? 'is not valid');
      wrong.push(`  ${name} ${problem}: ${meaning}. Example: ${name}=${example}`);
    }
  }
  return { values, wrong };
}

const WHOLE_PLACEHOLDER = /^<[^<>]*>$/;

/** The placeholder that a value still contains: that of the variable’s own example, or any as the whole value. */
function findPlaceholder(given: string, example: string): string | undefined {
  const value = given.trim();
  if (WHOLE_PLACEHOLDER.test(value)) return value;
  return example.match(/<[^<>]+>/g)?.find((placeholder) => value.includes(placeholder));
}

function messageOf(what: string, wrong: readonly string[]): string {
  const count = `${wrong.length} variable${wrong.length > 1 ? 's need' : ' needs'} attention`;
  return `${what}, ${count}:\n${wrong.join('\n')}`;
}
