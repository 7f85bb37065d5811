import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Request, RequestHandler, Response } from 'express';
import type { Database } from '../infra/database.ts';
import { deleteSession, findSession, saveSession } from '../store/sessions.ts';
import { bearerOf } from './bearer.ts';
import { defineCookie } from './cookies.ts';
import { Problem } from './problem.ts';
import type { RefusedTries } from './refused-tries.ts';

/** A client's access: an admin, or read-only. */
export type Access = 'admin' | 'read';

export const SESSION_COOKIE = 'activity_sync_session';
const SESSION_MS = 12 * 3_600_000;
/** The challenge that every 401 carries (RFC 9110). */
export const CHALLENGE = { 'WWW-Authenticate': 'Bearer realm="activity-sync"' };

/** Checks who may use the admin interface: a bearer token, or a browser session started with one. */
export interface AdminAuth {
  /**
   * Who this request comes from; undefined when it carries neither a valid token nor a valid session.
   * @throws Problem 429 after too many wrong tokens from its address
   */
  accessOf(request: Request): Promise<Access | undefined>;
  /** Refuses a client without the access, and leaves the client's access in `response.locals`. 'public' lets everyone through. */
  guard(needed: 'public' | 'write' | Access): RequestHandler;
  /** No token is configured, so no sign-in can succeed. */
  isClosed: boolean;
  /**
   * What the holder of a token may do; undefined when it is not one of ours, which is counted.
   * @throws Problem 429 after too many wrong tokens from this address
   */
  accessOfToken(token: string, request: Request): Access | undefined;
  startSession(access: Access, response: Response): Promise<void>;
  /** Ends the session for good: its cookie becomes invalid. */
  endSession(request: Request, response: Response): Promise<void>;
}

/**
 * @param adminToken unset: the whole admin interface is closed
 * @param secureCookie true where the public address is https
 */
export function createAdminAuth(options: {
  database: Database;
  refusedTries: RefusedTries;
  adminToken: string | undefined;
  readToken: string | undefined;
  secureCookie: boolean;
}): AdminAuth {
  const { database } = options;
  const digests = new Map<Access, Buffer>();
  if (options.adminToken) digests.set('admin', digest(options.adminToken));
  if (options.adminToken && options.readToken) digests.set('read', digest(options.readToken));
  const cookie = defineCookie({
    name: SESSION_COOKIE,
    secure: options.secureCookie,
    sameSite: 'strict',
    lifetimeMs: SESSION_MS,
  });

  const accessOfToken: AdminAuth['accessOfToken'] = (token, request) => {
    const given = digest(token);
    // Every digest is compared, so the time does not reveal which one was close.
    let found: Access | undefined;
    for (const [access, expected] of digests) if (timingSafeEqual(given, expected)) found ??= access;
    if (found === undefined) options.refusedTries.note(request);
    return found;
  };

  /** Under each token that there is: a session is found only by the one that began it. */
  const idHashesOf = (request: Request): Buffer[] => {
    const id = cookie.read(request);
    return id ? [...digests.values()].map((key) => hashId(key, id)) : [];
  };

  const accessOfSession = async (request: Request): Promise<Access | undefined> => {
    const idHashes = idHashesOf(request);
    return idHashes.length === 0 ? undefined : findSession(database, idHashes);
  };

  // Only a bearer token replaces a session: a browser may send other credentials along, such as a proxy's.
  const identify = async (request: Request): Promise<{ access: Access | undefined; bySession: boolean }> => {
    const bearer = bearerOf(request);
    return bearer === undefined
      ? { access: await accessOfSession(request), bySession: true }
      : { access: accessOfToken(bearer, request), bySession: false };
  };

  return {
    accessOf: async (request) => (await identify(request)).access,
    guard: (needed) => async (request, response, next) => {
      if (needed === 'public') return next();
      const { access, bySession } = await identify(request);
      if (access === undefined) {
        throw digests.size === 0
          ? adminClosed()
          : new Problem('unauthorized', 'Send Authorization: Bearer with the admin token, or sign in at /admin.', {
              headers: CHALLENGE,
            });
      }
      if (needed !== 'read' && access !== 'admin') throw new Problem('forbidden', 'This token is read-only.');
      if (bySession && !isSafe(request)) refuseForeignOrigin(request);
      response.locals.access = access;
      response.locals.who = bySession ? 'session' : access;
      response.locals.credential = bySession ? cookie.read(request) : access;
      response.set('Cache-Control', 'no-store');
      next();
    },
    isClosed: digests.size === 0,
    accessOfToken,
    startSession: async (access, response) => {
      const id = randomBytes(32).toString('base64url');
      const idHash = hashId(digests.get(access) as Buffer, id);
      await saveSession(database, { idHash, access, lifetimeMs: SESSION_MS });
      cookie.set(response, id);
    },
    endSession: async (request, response) => {
      const idHashes = idHashesOf(request);
      if (idHashes.length > 0) await deleteSession(database, idHashes);
      cookie.clear(response);
    },
  };
}

/** The answer to every sign-in and request while ADMIN_TOKEN is not set. */
export function adminClosed(): Problem {
  return new Problem(
    'adminClosed',
    'The admin interface is closed: ADMIN_TOKEN is not set. To open it, set ADMIN_TOKEN to a random string of at least 16 characters and restart the service.',
    { headers: CHALLENGE },
  );
}

function hashId(key: Buffer, id: string): Buffer {
  return createHmac('sha256', key).update(`session ${id}`).digest();
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
  if (!ours) throw new Problem('forbidden', 'A browser session may change things only from this service’s own pages.');
}

function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
