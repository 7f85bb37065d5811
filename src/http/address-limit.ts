import type { RequestHandler } from 'express';
import { rateLimit } from 'express-rate-limit';
import { Problem } from './problem.ts';

const WINDOW_MS = 60_000;
const TRIES = 10;

/**
 * At most ten failed attempts a minute from one address; behind proxies TRUSTED_PROXIES determines which that is.
 * @param what is attempted, for the 429: "to sign in"
 */
export function limitTries(what: string): RequestHandler {
  return rateLimit({
    windowMs: WINDOW_MS,
    limit: TRIES,
    standardHeaders: 'draft-8',
    legacyHeaders: false,
    skipSuccessfulRequests: true,
    // A client that sends the header without a proxy in between is not believed, and no reason to complain.
    validate: { xForwardedForHeader: false },
    handler: () => {
      throw new Problem('tooManyRequests', `Too many attempts ${what} from this address. Wait a minute.`, {
        headers: { 'Retry-After': String(WINDOW_MS / 1000) },
      });
    },
  });
}
