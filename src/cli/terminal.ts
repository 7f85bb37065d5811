import { readSecrets } from '../infra/config.ts';
import { redactSecrets } from '../infra/logger.ts';

/** Writes results to standard output, everything else to standard error; no secret reaches either. */
export interface Terminal {
  /** Whether standard error is a terminal, so that a line may be redrawn. */
  readonly isInteractive: boolean;
  print(text: string): void;
  /** A result as one JSON document. */
  printJson(value: unknown): void;
  /** A remark that is not part of the result. */
  note(text: string): void;
  /** Redraws the last line of standard error. An empty text removes it. */
  redraw(text: string): void;
}

export function openTerminal(): Terminal {
  const secrets = readSecrets();
  const clean = (text: string) => redactSecrets(text, secrets);
  return {
    isInteractive: process.stderr.isTTY === true,
    print: (text) => process.stdout.write(`${clean(text)}\n`),
    printJson: (value) => process.stdout.write(`${clean(JSON.stringify(value, null, 2))}\n`),
    note: (text) => process.stderr.write(`${clean(text)}\n`),
    redraw: (text) => process.stderr.write(`\r\u001b[2K${clean(text)}`),
  };
}

/**
 * Lays rows out in columns under a heading; numbers are right-aligned.
 * @param rows cells by column, in the order of the headings
 */
export function toTable(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = headings.map((heading, column) =>
    Math.max(heading.length, ...rows.map((row) => (row[column] ?? '').length)),
  );
  const isNumeric = headings.map(
    (_, column) => rows.length > 0 && rows.every((row) => /^[\d–-]*$/.test(row[column] ?? '')),
  );
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) =>
        isNumeric[column] ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0),
      )
      .join('  ')
      .trimEnd();
  return [line(headings), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)].join('\n');
}

/** A text on one line, cut to at most `max` characters. */
export function shorten(text: string, length: number): string {
  const line = text.replaceAll(/\s+/g, ' ');
  return line.length <= length ? line : `${line.slice(0, length - 1)}…`;
}
