import type { Response } from 'express';
import { createPacedRead } from '../infra/paced-read.ts';

const KEEP_MS = 5000;

/**
 * Makes a read that calls the provider outside the budget: at once for an admin, and at most once in five seconds for
 * all who may only look, who share its answer or its error.
 */
export function createProviderRead<T>(read: () => Promise<T>): (response: Response) => Promise<T> {
  const pacedRead = createPacedRead(() => Promise.allSettled([read()]), KEEP_MS);
  return async ({ locals }) => {
    if (locals.access === 'admin') return read();
    const [result] = await pacedRead();
    if (result.status === 'rejected') throw result.reason;
    return result.value;
  };
}
