import { isNativeError } from 'node:util/types';

const CONFLICT = new Set(['40001', '40P01']);

/** True for a statement that lost to another transaction (serialization failure, deadlock): retry it. */
export function isConflict(error: unknown): boolean {
  return CONFLICT.has(String((error as { code?: unknown }).code));
}

// PostgreSQL's error classes: connection, lost to another transaction, resources, lock and intervention,
// server I/O, a server that has become read-only; then the names of system errors.
const UNAVAILABLE =
  /^(08...|40...|53...|55P03|57...|58...|25P03|25006)$|^(ECONN(REFUSED|RESET|ABORTED)|EPIPE|ETIMEDOUT|E(HOST|NET)UNREACH|ENOTFOUND|EAI_AGAIN)$/;
const UNAVAILABLE_MESSAGE =
  /timeout exceeded when trying to connect|Connection terminated|connection error and is not queryable|Client was closed and is not queryable|Cannot use a pool after calling end|Query read timeout/;

/** True for errors that say that the database is unreachable, overloaded or locked, not that the statement was wrong. */
export function isUnavailable(error: unknown): error is Error {
  if (!isNativeError(error)) return false;
  const { code } = error as { code?: unknown };
  return typeof code === 'string' ? UNAVAILABLE.test(code) : UNAVAILABLE_MESSAGE.test(error.message);
}

/** True for text that PostgreSQL cannot store: with U+0000. */
export function isUnstorableText(error: unknown): boolean {
  return isNativeError(error) && (error as { code?: unknown }).code === '22021';
}

/** True for a value that PostgreSQL cannot store: out of a type's range, or nested beyond its limits. */
export function isUnstorable(error: unknown): error is Error {
  return isNativeError(error) && /^(22|54)...$/.test(String((error as { code?: unknown }).code));
}
