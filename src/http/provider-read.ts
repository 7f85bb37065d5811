import type { Response } from 'express';
import { createPacedRead } from '../infra/paced-read.ts';

const KEEP_MS = 5000;

/**
 * Limits a read that calls the provider outside the budget: an admin gets it at once; holders of the read token share
 * one call in five seconds, and its answer or its error.
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
