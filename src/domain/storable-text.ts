const REPLACEMENT = '\ufffd';

/** Text as PostgreSQL can hold it: NUL and halves of surrogate pairs become U+FFFD. */
export function toStorableText(text: string): string {
  return text.toWellFormed().replaceAll('\0', REPLACEMENT);
}

/**
 * JSON text as PostgreSQL's jsonb can hold it: the escapes of NUL and of halves of surrogate pairs become
 * the escape of U+FFFD. Works on the text, so that every number stays exactly as it was written.
 * @param json well-formed JSON
 */
export function toStorableJson(json: string): string {
  if (!SUSPECT.test(json)) return json;
  return json.replace(ESCAPE, (unit) => (UNSTORABLE.test(unit) ? '\\ufffd' : unit));
}

const SUSPECT = /\\u(?:0000|d[89a-f])/i;
// A whole pair and any other escape are taken in one piece, so that "\\u0000", an escaped backslash before
// plain letters, is left alone.
const ESCAPE = /\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|\\u[0-9a-f]{4}|\\[^u]/gi;
const UNSTORABLE = /^\\u(?:0000|d[89a-f][0-9a-f]{2})$/i;
