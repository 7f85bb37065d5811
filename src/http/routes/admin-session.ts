import type { Request } from 'express';
import { z } from 'zod';
import { type AdminAuth, CHALLENGE, refuseForeignOrigin } from '../admin-auth.ts';
import { Problem } from '../problem.ts';
import { defineRoute, type Route } from '../route.ts';
import type { SignIn } from '../sign-in.ts';

const accessOut = z.strictObject({ access: z.enum(['admin', 'read']) });
const OTHER_PAGE = { description: 'Sent from a page that is not this service’s' };
const PATH = '/api/admin/session';

/** A browser's session: started with a token, kept in a cookie that scripts cannot read. */
export function adminSessionRoutes(deps: { auth: AdminAuth; signIn: SignIn }): Route[] {
  const { auth, signIn } = deps;
  return [
    defineRoute({
      method: 'post',
      path: PATH,
      summary: 'Sign in: start a browser session with the admin token or the read token',
      access: 'public',
      body: z.strictObject({ token: z.string().min(1).max(500) }),
      responses: {
        200: { description: 'Signed in; the session is in a cookie', schema: accessOut },
        401: { description: 'Not one of the tokens' },
        403: OTHER_PAGE,
        429: { description: 'Too many attempts from this address' },
      },
      handle: async ({ body, request, response }) => {
        refuseOtherPages(request);
        const access = await signIn.begin(body.token, `POST ${PATH}`, request, response);
        if (!access)
          throw new Problem('unauthorized', 'This is neither the admin token nor the read token.', {
            headers: CHALLENGE,
          });
        return { status: 200, body: { access }, headers: { 'Cache-Control': 'no-store' } };
      },
    }),
    defineRoute({
      method: 'get',
      path: PATH,
      summary: 'What this session or token may do',
      access: 'read',
      responses: { 200: { description: 'Signed in', schema: accessOut } },
      handle: ({ response }) => ({ status: 200, body: { access: response.locals.access as 'admin' | 'read' } }),
    }),
    defineRoute({
      method: 'delete',
      path: PATH,
      summary: 'Sign out; signing out twice does no harm',
      access: 'public',
      responses: { 204: { description: 'Signed out' }, 403: OTHER_PAGE },
      handle: async ({ request, response }) => {
        refuseOtherPages(request);
        await auth.endSession(request, response);
        return { status: 204, body: undefined };
      },
    }),
  ];
}

// A client that sends neither header is not a browser, and has no session to abuse.
function refuseOtherPages(request: Request): void {
  if (request.get('origin') !== undefined || request.get('sec-fetch-site') !== undefined) refuseForeignOrigin(request);
}
