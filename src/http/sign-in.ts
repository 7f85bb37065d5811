import type { Request, Response } from 'express';
import { type Access, type AdminAuth, adminClosed } from './admin-auth.ts';
import type { Audit } from './audit.ts';

/** Starts a browser session, from the console or the plain form; both are limited and audited alike. */
export interface SignIn {
  /**
   * Starts a session for the holder of a token, once the audit has it.
   * @param action as the audit names it
   * @returns undefined when the token is not one of ours
   * @throws Problem 401 while the admin interface is closed; 429 after too many wrong tokens from this address, in either form or as bearer tokens
   */
  begin(token: string, action: string, request: Request, response: Response): Promise<Access | undefined>;
}

export function createSignIn(auth: AdminAuth, audit: Audit): SignIn {
  return {
    begin: async (token, action, request, response) => {
      if (auth.isClosed) throw adminClosed();
      const access = auth.accessOfToken(token, request);
      if (access === undefined) return undefined;
      await audit.signedIn(access, action);
      await auth.startSession(access, response);
      return access;
    },
  };
}
