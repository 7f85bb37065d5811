const LONGEST_TEXT = 100;
const MOST_ITEMS = 2;
const MOST_FIELDS = 20;
const MOST_LINES = 60;

/** A JSON text laid out for reading: long lists, objects and strings are cut, and say so by `…`. */
export function shortenJson(text: string): string {
  const laidOut = JSON.stringify(shortenValue(JSON.parse(text)), null, 2);
  const lines = laidOut.replaceAll('"…": "…"', '…').replaceAll('"…"', '…').split('\n');
  return lines.length <= MOST_LINES ? lines.join('\n') : [...lines.slice(0, MOST_LINES), '…'].join('\n');
}

/** A text cut in the middle, so that both ends can be seen. */
export function shortenText(text: string): string {
  return text.length <= LONGEST_TEXT * 2 ? text : `${text.slice(0, LONGEST_TEXT)}…${text.slice(-20)}`;
}

function shortenValue(value: unknown): unknown {
  if (typeof value === 'string') return value.length <= LONGEST_TEXT ? value : `${value.slice(0, LONGEST_TEXT)}…`;
  if (Array.isArray(value)) {
    const items = value.slice(0, MOST_ITEMS).map(shortenValue);
    return value.length > MOST_ITEMS ? [...items, '…'] : items;
  }
  if (typeof value !== 'object' || value === null) return value;
  const fields = Object.entries(value).map(([key, item]) => [key, shortenValue(item)]);
  return Object.fromEntries(fields.length > MOST_FIELDS ? [...fields.slice(0, MOST_FIELDS), ['…', '…']] : fields);
}
