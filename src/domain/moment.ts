const MAX_EPOCH_S = 32_503_680_000; // the year 3000
// A date, with or without a time; Date.parse alone takes far more than ISO 8601.
const ISO = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})?)?$/;

/**
 * Reads a time given as ISO 8601 (a date alone is midnight UTC, a time without a zone is UTC) or as whole
 * seconds since the epoch.
 * @returns epoch seconds, rounded down; undefined when it is neither, or beyond the years 1970 to 3000
 */
export function toEpochSeconds(value: string | number): number | undefined {
  const text = String(value).trim();
  const seconds = /^\d{1,11}$/.test(text)
    ? Number(text)
    : ISO.test(text) && isInCalendar(text)
      ? Math.floor(Date.parse(inUtc(text)) / 1000)
      : -1;
  return seconds >= 0 && seconds <= MAX_EPOCH_S ? seconds : undefined;
}

// Date.parse takes 31 February for 3 March.
function isInCalendar(text: string): boolean {
  const day = text.slice(0, 'YYYY-MM-DD'.length);
  const midnight = new Date(`${day}T00:00:00Z`);
  return !Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(day);
}

function inUtc(text: string): string {
  return text.includes('T') && !/(Z|[+-]\d{2}:\d{2})$/.test(text) ? `${text}Z` : text;
}
