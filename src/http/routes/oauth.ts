import { randomBytes } from 'node:crypto';
import { type Request, Router } from 'express';
import type { Int64 } from '../../domain/int64.ts';
import { toStorableText } from '../../domain/storable-text.ts';
import { type ConnectAthlete, ConnectError, type ConnectLink, STATE_MS } from '../../flows/connect-athlete.ts';
import type { Logger } from '../../infra/logger.ts';
import { ProviderError } from '../../provider/errors.ts';
import { limitTries } from '../address-limit.ts';
import { defineCookie } from '../cookies.ts';
import { renderNotConnectedPage } from '../pages/not-connected-page.ts';
import { renderPage } from '../pages/page.ts';
import { Problem, refuseOtherMethods, showProblemsAs } from '../problem.ts';

/** The OAuth flow: to the provider and back, in one browser. */
export function createOauthRouter(deps: {
  connectAthlete: ConnectAthlete;
  secureCookie: boolean;
  logger: Logger;
}): Router {
  const { connectAthlete } = deps;
  // Lax: the provider's page leads back here.
  const cookie = defineCookie({
    name: 'activity_sync_connect',
    secure: deps.secureCookie,
    sameSite: 'lax',
    lifetimeMs: STATE_MS,
  });
  const router = Router();

  router.get('/api/provider/connect', (request, response) => {
    // The same for every tab of a browser, so that no tab invalidates another's callback.
    const known = cookie.read(request);
    const browser = known && BROWSER.test(known) ? known : randomBytes(BROWSER_BYTES).toString('base64url');
    const { link } = request.query;
    try {
      const address = connectAthlete.begin(browser, typeof link === 'string' ? link : undefined);
      cookie.set(response, browser);
      response.set('Cache-Control', 'no-store').redirect(302, address);
    } catch (problem) {
      if (problem instanceof ConnectError) throw new Problem('badRequest', problem.message);
      throw problem;
    }
  });

  router.use('/api/provider/callback', (request, response, next) => {
    const { state } = request.query;
    const link = typeof state === 'string' ? connectAthlete.linkOf(state, cookie.read(request) ?? '') : undefined;
    showProblemsAs((problem) => renderNotConnectedPage(problem, link))(request, response, next);
  });
  router.get('/api/provider/callback', limitTries('to connect'), async (request, response) => {
    const { code, state, error } = request.query;
    if (typeof state !== 'string')
      throw new Problem('badRequest', 'The state is missing.', {
        errors: [{ field: 'query.state', message: 'must be a string' }],
      });
    response.set('Cache-Control', 'no-store').set('Referrer-Policy', 'no-referrer');
    const browser = cookie.read(request) ?? '';
    try {
      if (typeof error === 'string') {
        const link = await connectAthlete.useState(state, browser);
        if (link) return response.redirect(302, returnTo(link, { status: 'denied' }));
        response
          .status(403)
          .send(
            renderPage(
              'Not connected',
              '<p>Access was not granted, so nothing was connected. You can close this page, or <a href="/api/provider/connect">try again</a>.</p>',
            ),
          );
        return;
      }
      if (typeof code !== 'string')
        throw new Problem('badRequest', 'The code is missing.', {
          errors: [{ field: 'query.code', message: 'must be a string' }],
        });
      const { athleteId, scopeSuffices, link } = await connectAthlete.finish({
        code,
        state,
        browser,
        scope: readScope(request),
      });
      if (link)
        return response.redirect(302, returnTo(link, { status: scopeSuffices ? 'connected' : 'scope', athleteId }));
      response.send(
        scopeSuffices
          ? renderPage(
              'Connected',
              '<p>From now on this application receives your activities soon after you save or change them. You can close this page.</p>',
            )
          : renderPage(
              'Connected, but not allowed to read activities',
              '<p>The permission to view activities was not granted, so none can be shown. <a href="/api/provider/connect">Reconnect</a> and leave that box ticked.</p>',
            ),
      );
    } catch (problem) {
      if (problem instanceof ConnectError) throw new Problem('badRequest', problem.message);
      // A fixed sentence: the page is public, and anyone may have written the provider's text.
      if (problem instanceof ProviderError) {
        deps.logger.warn('athlete not connected', { component: 'connect', error: problem.message });
        throw new Problem('badGateway', NOT_ACCEPTED);
      }
      throw problem;
    }
  });
  for (const path of ['/api/provider/connect', '/api/provider/callback'])
    router.all(path, refuseOtherMethods('GET', 'HEAD'));
  return router;
}

const BROWSER_BYTES = 24;
const BROWSER = /^[\w-]{32}$/;
const NOT_ACCEPTED = 'The provider could not be reached, or did not accept the code.';
function returnTo({ returnUrl }: ConnectLink, result: { status: 'connected' | 'denied' | 'scope'; athleteId?: Int64 }) {
  const url = new URL(returnUrl);
  for (const [name, value] of Object.entries(result)) url.searchParams.set(name, value);
  return url.href;
}

export const MAX_SCOPE_LENGTH = 500;

// Read before the code is exchanged: a code can be exchanged once, and is lost when the scope cannot be stored.
function readScope(request: Request): string {
  const { scope } = request.query;
  if (typeof scope !== 'string') return '';
  if (scope.length > MAX_SCOPE_LENGTH)
    throw new Problem('badRequest', 'The scope is too long.', {
      errors: [{ field: 'query.scope', message: `must have at most ${MAX_SCOPE_LENGTH} characters` }],
    });
  return toStorableText(scope);
}
