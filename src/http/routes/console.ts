import { type Request, type Response, Router } from 'express';
import type { ConsoleAsset, ConsoleAssets } from '../console-assets.ts';
import { Problem, refuseOtherMethods } from '../problem.ts';

const ASSETS = '/admin/assets/';

/**
 * The operator's console: one page for every address below /admin, and its script, style and icon. The
 * page contains no data; it calls the admin interface, which checks the credentials.
 */
export function createConsoleRouter(assets: ConsoleAssets): Router {
  const router = Router();
  router.get(/^\/admin\/assets\/.*/, (request, response) => sendAsset(assets, request, response, '/admin/assets'));
  router.get(/^\/admin(\/.*)?$/, (request, response) => sendAsset(assets, request, response, '/admin'));
  router.all(/^\/admin(\/.*)?$/, refuseOtherMethods('GET', 'HEAD'));
  return router;
}

function sendAsset(assets: ConsoleAssets, request: Request, response: Response, routePath: string): void {
  const name = request.path.startsWith(ASSETS) ? request.path.slice(ASSETS.length) : '';
  const isAsset = routePath !== '/admin';
  const asset = isAsset && name === '' ? undefined : assets.get(name);
  if (!asset) throw new Problem('notFound', `There is nothing at ${request.path}.`);
  response.locals.routePath = routePath;
  const encoding = encodingFor(request);
  response.set({
    'Cache-Control': 'no-cache', // revalidated each time, so that a new version is seen at once
    'Content-Type': asset.contentType,
    ETag: asset.etag,
    Vary: 'Accept-Encoding',
  });
  if (request.get('if-none-match')?.includes(asset.etag)) {
    response.status(304).end();
    return;
  }
  if (encoding !== 'identity') response.set('Content-Encoding', encoding);
  response.send(asset.encodings[encoding]);
}

function encodingFor(request: Request): keyof ConsoleAsset['encodings'] {
  const accepted = request.acceptsEncodings(['br', 'gzip', 'identity']);
  return accepted === 'br' || accepted === 'gzip' ? accepted : 'identity';
}
