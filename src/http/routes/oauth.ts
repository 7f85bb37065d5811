import { type Request, Router } from 'express';
import { toStorableText } from '../../domain/storable-text.ts';
import { type ConnectAthlete, ConnectError } from '../../flows/connect-athlete.ts';
import { ProviderError } from '../../provider/errors.ts';
import { limitTries } from '../address-limit.ts';
import { renderNotConnectedPage } from '../pages/not-connected-page.ts';
import { renderPage } from '../pages/page.ts';
import { Problem, refuseOtherMethods, showProblemsAs } from '../problem.ts';

/** The athlete's way of granting access: there and back. */
export function createOauthRouter(connectAthlete: ConnectAthlete): Router {
  const router = Router();

  router.get('/api/provider/connect', (_request, response) => {
    response.set('Cache-Control', 'no-store').redirect(302, connectAthlete.begin());
  });

  router.use('/api/provider/callback', showProblemsAs(renderNotConnectedPage));
  router.get('/api/provider/callback', limitTries('to connect'), async (request, response) => {
    const { code, state, error } = request.query;
    if (typeof state !== 'string')
      throw new Problem('badRequest', 'The state is missing.', {
        errors: [{ field: 'query.state', message: 'must be a string' }],
      });
    response.set('Cache-Control', 'no-store').set('Referrer-Policy', 'no-referrer');
    try {
      if (typeof error === 'string') {
        connectAthlete.checkState(state);
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
      const { scopeSuffices } = await connectAthlete.finish({ code, state, scope: readScope(request) });
      response.send(
        scopeSuffices
          ? renderPage(
              'Connected',
              '<p>From now on this application has your activities, each soon after you save or change it. You can close this page.</p>',
            )
          : renderPage(
              'Connected, but not allowed to read activities',
              '<p>The permission to view activities was not granted, so none can be shown. <a href="/api/provider/connect">Connect again</a> and leave that box ticked.</p>',
            ),
      );
    } catch (problem) {
      if (problem instanceof ConnectError) throw new Problem('badRequest', problem.message);
      if (problem instanceof ProviderError) throw new Problem('badGateway', problem.message);
      throw problem;
    }
  });
  for (const path of ['/api/provider/connect', '/api/provider/callback'])
    router.all(path, refuseOtherMethods('GET', 'HEAD'));
  return router;
}

export const MAX_SCOPE_LENGTH = 500;

// Read before the code is exchanged: it is good for one exchange, and lost when the scope cannot be stored.
function readScope(request: Request): string {
  const { scope } = request.query;
  if (typeof scope !== 'string') return '';
  if (scope.length > MAX_SCOPE_LENGTH)
    throw new Problem('badRequest', 'The scope is too long.', {
      errors: [{ field: 'query.scope', message: `must have at most ${MAX_SCOPE_LENGTH} characters` }],
    });
  return toStorableText(scope);
}
