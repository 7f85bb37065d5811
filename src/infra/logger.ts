import { Writable } from 'node:stream';
import { isNativeError } from 'node:util/types';
import winston from 'winston';

/** Logs one line for each thing that happened. ERROR means that an operator must act. */
export type Logger = winston.Logger;

const SECRET_NAME = /token|secret|password|authorization|cookie|key|polyline|^code$/i;
const REDACTED = '[redacted]';
const SHORTEST_SECRET = 6;
const LEVEL = Symbol.for('level'); // where winston keeps the level, whatever a format makes of the text

/**
 * Creates the logger of a process: JSON lines, or readable lines on a terminal.
 * @param secrets values that must never appear, whatever field or message they are in
 */
export function createLogger(options: {
  level: string;
  secrets?: readonly (string | undefined)[];
  pretty?: boolean;
}): Logger {
  const secrets = patternOf(options.secrets ?? []);
  const redact = winston.format((info) => {
    for (const [name, value] of Object.entries(info)) info[name] = redacted(name, value, secrets, 0);
    return info;
  });
  const pretty = options.pretty ?? process.stdout.isTTY;
  return winston.createLogger({
    level: options.level,
    format: winston.format.combine(
      redact(),
      winston.format.timestamp(),
      pretty
        ? winston.format.combine(winston.format.colorize(), winston.format.printf(readableLine))
        : winston.format.json(),
    ),
    transports: [
      new winston.transports.Stream({
        stream: standardOutput,
        format: onlyLevel((level) => level !== 'error'),
      }),
      new winston.transports.Stream({
        stream: standardError,
        format: onlyLevel((level) => level === 'error'),
      }),
    ],
  });
}

const onlyLevel = (fits: (level: string) => boolean) =>
  winston.format((info) => (fits(String(info[LEVEL])) ? info : false))();

// Shared by the process's loggers.
const standardOutput = gatherLines(process.stdout);
const standardError = gatherLines(process.stderr);

/** Writes the lines of one event-loop iteration together: a write to a pipe costs more than the line. */
function gatherLines(target: NodeJS.WriteStream): Writable {
  let lines = '';
  const flush = () => {
    if (lines !== '') target.write(lines);
    lines = '';
  };
  process.once('exit', flush);
  return new Writable({
    decodeStrings: false,
    write: (line: string, _encoding, done) => {
      if (lines === '') setImmediate(flush);
      lines += line;
      done();
    },
  });
}

/** A logger that discards everything, for tests and tools with their own output. */
export function createSilentLogger(): Logger {
  return winston.createLogger({ silent: true, transports: [new winston.transports.Console()] });
}

/** Removes secret values from a text, literal and percent-encoded. */
export function redactSecrets(text: string, secrets: readonly (string | undefined)[]): string {
  return text.replace(patternOf(secrets), REDACTED);
}

// A very short one would blank out half the text. The longest first, so that no part of it is left. One
// pattern for all: every field of every line is searched.
function patternOf(secrets: readonly (string | undefined)[]): RegExp {
  const long = secrets.filter((secret) => secret !== undefined && secret.length >= SHORTEST_SECRET) as string[];
  const forms = long.flatMap((secret) => [
    secret,
    encodeURIComponent(secret),
    new URLSearchParams({ s: secret }).toString().slice(2),
  ]);
  const longestFirst = [...new Set(forms)].sort((a, b) => b.length - a.length);
  return new RegExp(longestFirst.map(escapePattern).join('|') || NOTHING, 'g');
}

const NOTHING = '(?!)';

function escapePattern(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');
}

function redacted(name: string, value: unknown, secrets: RegExp, depth: number): unknown {
  if (name !== 'level' && name !== 'message' && SECRET_NAME.test(name) && value !== undefined) return REDACTED;
  if (typeof value === 'string') return value.replace(secrets, REDACTED);
  if (isNativeError(value)) return redacted('', describeError(value), secrets, depth);
  if (typeof value === 'object' && value !== null && depth < 4) {
    if (Array.isArray(value)) return value.map((item) => redacted('', item, secrets, depth + 1));
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [key, redacted(key, item, secrets, depth + 1)]),
    );
  }
  return value;
}

// Only these parts: what a library attaches to its errors may contain a query string or a header.
function describeError(error: Error): Record<string, unknown> {
  const { code } = error as { code?: unknown };
  return {
    name: error.name,
    message: error.message,
    stack: error.stack,
    ...(code === undefined ? {} : { errorCode: code }),
    ...(isNativeError(error.cause) ? { cause: error.cause.message } : {}),
  };
}

function readableLine(info: winston.Logform.TransformableInfo): string {
  const { level, message, timestamp, component, ...fields } = info;
  const rest = Object.entries(fields)
    .map(([name, value]) => `${name}=${typeof value === 'object' ? JSON.stringify(value) : String(value)}`)
    .join(' ');
  return `${String(timestamp).slice(11, 23)} ${level} ${component ? `${String(component)}: ` : ''}${String(message)}${rest ? ` (${rest})` : ''}`;
}
