/**
 * 64-bit ids. Inside the service an id is a decimal string (JavaScript numbers are exact only up to
 * 2^53); on the wire a number or a numeric string is accepted, and a string is sent.
 */

/** The largest id that PostgreSQL's bigint holds: 2^63 - 1. */
export const MAX_INT64 = 9223372036854775807n;

/** A positive 64-bit integer as a decimal string without sign or leading zeros, e.g. "1360128428". */
export type Int64 = string;

/**
 * Reads an id from JSON input.
 * @returns the id, or undefined when the value is not a whole number from 1 to 2^63-1. A number beyond
 * 2^53-1 has already lost digits when JSON.parse returns it, and is refused: parse such bodies with
 * parseJsonKeepingInt64, which hands large integers over as strings.
 */
export function toInt64(value: unknown): Int64 | undefined {
  const text = typeof value === 'number' ? (Number.isSafeInteger(value) ? String(value) : '') : value;
  if (typeof text !== 'string' || !/^[0-9]{1,19}$/.test(text)) return undefined;
  const id = BigInt(text);
  return id >= 1n && id <= MAX_INT64 ? id.toString() : undefined;
}

/**
 * JSON.parse that keeps every integer exact: an integer literal beyond 2^53-1 becomes its decimal
 * string. Uses the source text that the engine passes to the reviver (Node 21 and later).
 * @throws SyntaxError for malformed JSON, as JSON.parse does.
 */
export function parseJsonKeepingInt64(text: string): unknown {
  // Only a run of 16 or more digits can be an integer that a double does not hold exactly.
  if (!/[0-9]{16}/.test(text)) return JSON.parse(text);
  const keepExact = (_key: string, value: unknown, context?: { source?: string }): unknown =>
    typeof value === 'number' && !Number.isSafeInteger(value) && /^-?[0-9]+$/.test(context?.source ?? '')
      ? context?.source
      : value;
  return (JSON.parse as (text: string, reviver: typeof keepExact) => unknown)(text, keepExact);
}
