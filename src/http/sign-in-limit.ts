import type { RequestHandler } from 'express';
import { rateLimit } from 'express-rate-limit';
import { Problem } from './problem.ts';

const WINDOW_MS = 60_000;
const TRIES = 10;

/** At most ten tries to sign in a minute from one address; behind proxies TRUSTED_PROXIES tells which that is. */
export function limitSignIn(): RequestHandler {
  return rateLimit({
    windowMs: WINDOW_MS,
    limit: TRIES,
    standardHeaders: 'draft-8',
    legacyHeaders: false,
    skipSuccessfulRequests: true,
    // Whoever sends the header without a proxy in between is not believed, and no reason to complain.
    validate: { xForwardedForHeader: false },
    handler: () => {
      throw new Problem('tooManyRequests', 'Too many tries to sign in from this address. Wait a minute.', {
        headers: { 'Retry-After': String(WINDOW_MS / 1000) },
      });
    },
  });
}
