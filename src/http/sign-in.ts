import type { RequestHandler, Response } from 'express';
import { limitTries } from './address-limit.ts';
import type { Access, AdminAuth } from './admin-auth.ts';
import type { Audit } from './audit.ts';

/** How a browser session begins, be it in the console or with the plain form: limited and written down alike. */
export interface SignIn {
  /** Comes before every try; both ways count together. */
  limit: RequestHandler;
  /**
   * Starts a session for the holder of a token, once the audit has it.
   * @param action as the audit names it
   * @returns undefined when the token is not one of ours
   */
  begin(token: string, action: string, response: Response): Promise<Access | undefined>;
}

export function createSignIn(auth: AdminAuth, audit: Audit): SignIn {
  return {
    limit: limitTries('to sign in'),
    begin: async (token, action, response) => {
      const access = auth.accessOfToken(token);
      if (access === undefined) return undefined;
      await audit.signedIn(access, action);
      auth.startSession(access, response);
      return access;
    },
  };
}
