import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { Request, RequestHandler, Response } from 'express';
import { Problem } from './problem.ts';

/** Who asks: an admin, somebody who may only look, or nobody. */
export type Access = 'admin' | 'read';

export const SESSION_COOKIE = 'activity_sync_session';
const SESSION_MS = 12 * 3_600_000;
/** What every answer 401 says of how to sign in (RFC 9110). */
export const CHALLENGE = { 'WWW-Authenticate': 'Bearer realm="activity-sync"' };

/** Checks who may use the admin interface: a bearer token, or a browser session started with one. */
export interface AdminAuth {
  /** Who this request comes from; undefined when it carries neither a token nor a session that holds. */
  accessOf(request: Request): Access | undefined;
  /** Refuses whoever lacks the access, and leaves in `response.locals` who asks. 'public' lets everyone through. */
  guard(needed: 'public' | Access): RequestHandler;
  /** What the holder of a token may do; undefined when it is not one of ours. */
  accessOfToken(token: string): Access | undefined;
  startSession(access: Access, response: Response): void;
  endSession(response: Response): void;
}

/**
 * @param adminToken unset: the whole admin interface is closed
 * @param secureCookie true where the public address is https
 */
export function createAdminAuth(options: {
  adminToken: string | undefined;
  readToken: string | undefined;
  secureCookie: boolean;
  now: () => number;
}): AdminAuth {
  const digests = new Map<Access, Buffer>();
  if (options.adminToken) digests.set('admin', digest(options.adminToken));
  if (options.adminToken && options.readToken) digests.set('read', digest(options.readToken));

  const accessOfToken = (token: string): Access | undefined => {
    const given = digest(token);
    // Every digest is compared, so the time says nothing about which one was near.
    let found: Access | undefined;
    for (const [access, expected] of digests) if (timingSafeEqual(given, expected)) found ??= access;
    return found;
  };

  const sign = (access: Access, expires: string) =>
    createHmac('sha256', digests.get(access) ?? Buffer.alloc(32))
      .update(`session ${access} ${expires}`)
      .digest('base64url');

  const accessOfSession = (request: Request): Access | undefined => {
    const [access, expires, signature] = (cookieOf(request, SESSION_COOKIE) ?? '').split('.');
    if ((access !== 'admin' && access !== 'read') || !digests.has(access) || !expires || !signature) return undefined;
    const expected = Buffer.from(sign(access, expires));
    const given = Buffer.from(signature);
    if (expected.length !== given.length || !timingSafeEqual(expected, given)) return undefined;
    return Number(expires) > options.now() ? access : undefined;
  };

  // Only a bearer token takes a session's place: a browser may send other credentials along, such as a proxy's.
  const accessOf = (request: Request): { access: Access | undefined; bySession: boolean } => {
    const bearer = /^Bearer ([^\s]+)$/i.exec(request.get('authorization') ?? '')?.[1];
    return bearer === undefined
      ? { access: accessOfSession(request), bySession: true }
      : { access: accessOfToken(bearer), bySession: false };
  };

  return {
    accessOf: (request) => accessOf(request).access,
    guard: (needed) => (request, response, next) => {
      if (needed === 'public') return next();
      const { access, bySession } = accessOf(request);
      if (access === undefined) {
        throw new Problem(
          'unauthorized',
          digests.size === 0
            ? 'The admin interface is closed: ADMIN_TOKEN is not set.'
            : 'Send Authorization: Bearer with the admin token, or sign in at /admin.',
          { headers: CHALLENGE },
        );
      }
      if (needed === 'admin' && access !== 'admin') throw new Problem('forbidden', 'This token may only look.');
      if (bySession && !isSafe(request)) refuseForeignOrigin(request);
      response.locals.access = access;
      response.locals.who = bySession ? 'session' : access;
      response.set('Cache-Control', 'no-store');
      next();
    },
    accessOfToken,
    startSession: (access, response) => {
      const expires = String(options.now() + SESSION_MS);
      response.cookie(SESSION_COOKIE, `${access}.${expires}.${sign(access, expires)}`, {
        httpOnly: true,
        sameSite: 'strict',
        secure: options.secureCookie,
        maxAge: SESSION_MS,
        path: '/',
      });
    },
    endSession: (response) => {
      response.clearCookie(SESSION_COOKIE, {
        httpOnly: true,
        sameSite: 'strict',
        secure: options.secureCookie,
        path: '/',
      });
    },
  };
}

function isSafe(request: Request): boolean {
  return request.method === 'GET' || request.method === 'HEAD';
}

/** A browser session may change something only from our own pages. */
export function refuseForeignOrigin(request: Request): void {
  const site = request.get('sec-fetch-site');
  const origin = request.get('origin');
  const ours =
    site !== undefined
      ? site === 'same-origin'
      : origin !== undefined && URL.parse(origin)?.host === request.get('host');
  if (!ours)
    throw new Problem('forbidden', 'A browser session may change something only from the pages of this service.');
}

function cookieOf(request: Request, name: string): string | undefined {
  for (const part of (request.get('cookie') ?? '').split(';')) {
    const [key, ...value] = part.trim().split('=');
    if (key === name) return value.join('=');
  }
  return undefined;
}

function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
