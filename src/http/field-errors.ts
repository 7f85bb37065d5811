import type { z } from 'zod';
import type { FieldError } from './problem.ts';

const SHOWN = 20;
const MAX_FIELD_LENGTH = 200;

/**
 * Zod's errors as an answer shows them: at most 20 errors with short names, so that a bad request never gets an
 * answer much larger than itself.
 * @param part where the value was: body, query or path
 */
export function toFieldErrors(part: string, issues: readonly z.core.$ZodIssue[]): FieldError[] {
  return issues
    .slice(0, SHOWN)
    .flatMap((issue) =>
      issue.code === 'unrecognized_keys'
        ? issue.keys.slice(0, SHOWN).map((key) => toError([part, ...issue.path, key], 'is unknown'))
        : [toError([part, ...issue.path], issue.message)],
    )
    .slice(0, SHOWN);
}

function toError(path: readonly PropertyKey[], message: string): FieldError {
  const field = path.map(String).join('.');
  return { field: field.length > MAX_FIELD_LENGTH ? `${field.slice(0, MAX_FIELD_LENGTH)}…` : field, message };
}
