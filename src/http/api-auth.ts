import { createHash, randomBytes } from 'node:crypto';
import type { RequestHandler } from 'express';
import { rateLimit } from 'express-rate-limit';
import type { Database } from '../infra/database.ts';
import { findApiToken, type TokenScope } from '../store/api-tokens.ts';
import { type AdminAuth, CHALLENGE } from './admin-auth.ts';
import { bearerOf } from './bearer.ts';
import { Problem } from './problem.ts';
import type { Route } from './route.ts';

const PREFIX = 'ast_';
const WINDOW_MS = 60_000;

/** A new token. It is random enough that a plain digest of it can be kept. */
export function makeApiToken(): string {
  return `${PREFIX}${randomBytes(32).toString('base64url')}`;
}

export function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

/**
 * Guards /api/v1: a token of an application with the scope that the route needs, at its rate; or an operator's
 * token or session, as for the admin interface.
 * @param options.perMinute requests that one token may send to this process
 */
export function createApiGuard(options: {
  database: Database;
  auth: AdminAuth;
  perMinute: number;
}): (access: Route['access']) => RequestHandler {
  const limit = rateLimit({
    windowMs: WINDOW_MS,
    limit: options.perMinute,
    standardHeaders: 'draft-8',
    legacyHeaders: false,
    keyGenerator: (_request, response) => response.locals.apiToken,
    validate: { xForwardedForHeader: false },
    handler: () => {
      throw new Problem(
        'tooManyRequests',
        `This token may send ${options.perMinute} requests a minute. Wait a minute.`,
        {
          headers: { 'Retry-After': String(WINDOW_MS / 1000) },
        },
      );
    },
  });
  return (access) => {
    const needed: TokenScope = access === 'write' ? 'write' : 'read';
    const admins = options.auth.guard(needed === 'write' ? 'admin' : 'read');
    return async (request, response, next) => {
      const token = bearerOf(request);
      // An application's token is not an operator's, but not a wrong one either.
      if (!token?.startsWith(PREFIX) && (await options.auth.accessOf(request)) !== undefined)
        return admins(request, response, next);
      const found = token === undefined ? undefined : await findApiToken(options.database, digestOf(token));
      if (!found) {
        throw new Problem(
          'unauthorized',
          token === undefined
            ? 'Send Authorization: Bearer with a token that was created for this application.'
            : 'This token is unknown or was revoked. Ask the operator of the service for a new one.',
          { headers: CHALLENGE },
        );
      }
      if (needed === 'write' && found.scope !== 'write')
        throw new Problem('forbidden', 'This token may only read; this request needs the scope write.');
      response.locals.apiToken = found.id;
      response.locals.who = 'application';
      response.locals.tokenName = found.name;
      response.set('Cache-Control', 'no-store');
      return limit(request, response, next);
    };
  };
}
