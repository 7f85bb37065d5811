import { z } from 'zod';
import { type Int64, toInt64 } from '../domain/int64.ts';

/** How many rows a page has: 1 to 200, 50 by default. */
export const pageLimit = z
  .string()
  .regex(/^[0-9]{1,3}$/, 'must be a whole number from 1 to 200')
  .transform(Number)
  .refine((rows) => rows >= 1 && rows <= 200, 'must be a whole number from 1 to 200')
  .default(50)
  .meta({ type: 'integer', minimum: 1, maximum: 200, description: 'Rows in the answer' });

/** A whole number in a query. */
export const wholeNumber = (max: number, description: string) =>
  z
    .string()
    .regex(/^[0-9]{1,9}$/, `must be a whole number from 0 to ${max}`)
    .transform(Number)
    .refine((value) => value <= max, `must be a whole number from 0 to ${max}`)
    .meta({ type: 'integer', minimum: 0, maximum: max, description });

/** A time in a query: ISO 8601 with a zone. */
export const time = z.iso
  .datetime({ offset: true, error: 'must be a time such as 2026-01-31T12:00:00Z' })
  .transform((value) => new Date(value))
  .meta({ type: 'string', format: 'date-time' });

/** A time in an answer. */
export const timeOut = z.iso.datetime().meta({ description: 'UTC' });

/** Where the next page begins; null on the last one. */
export const nextCursorOut = z
  .string()
  .nullable()
  .meta({ description: 'Pass it as `cursor` to get the next page; null on the last one' });

/**
 * Cuts a page out of rows that were read with one more than requested.
 * @param cursorOf names a row, so that the next page begins behind it
 */
export function cutPage<Row>(rows: readonly Row[], limit: number, cursorOf: (row: Row) => string) {
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return { page, nextCursor: last !== undefined && rows.length > limit ? cursorOf(last) : null };
}

/** A cursor made of a time and an id, for rows that are in order of both. */
export interface TimeCursor {
  /** ISO 8601. */
  at: string;
  id: Int64;
}

export const timeCursor = z
  .string()
  .transform((value, context): TimeCursor => {
    const [, at, digits] = /^([^_]{20,32})_([0-9]{1,19})$/.exec(value) ?? [];
    const id = toInt64(digits);
    // The database knows no year 0.
    if (at === undefined || id === undefined || at.startsWith('0000') || !z.iso.datetime().safeParse(at).success) {
      context.issues.push({ code: 'custom', input: value, message: 'must be the nextCursor of the previous page' });
      return z.NEVER;
    }
    return { at, id };
  })
  .meta({ type: 'string', description: 'nextCursor of the previous page' });
