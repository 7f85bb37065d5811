import type { ApiRoutes } from './api-routes.ts';
import type { Answer, Call } from './exchange.ts';
import type { HomeRoutes } from './home-routes.ts';
import type { TileBook } from './map-tile.ts';
import type { OauthRoutes } from './oauth-routes.ts';
import type { SubscriptionRoutes } from './subscription-routes.ts';

const apiPrefix = '/api/v3/';
const activityPrefix = '/api/v3/activities/';
const subscriptionsPath = '/api/v3/push_subscriptions';

/** Where each path is answered. */
export interface Routes {
  api: ApiRoutes;
  oauth: OauthRoutes;
  subscriptions: SubscriptionRoutes;
  tiles: TileBook;
  home: HomeRoutes;
}

/** Answers a call by its path. */
export function route(routes: Routes, call: Call): Answer | Promise<Answer> {
  const { path } = call;
  if (isSubscriptionPath(path)) return routes.subscriptions.answer(call, path.slice(subscriptionsPath.length));
  if (path.startsWith(apiPrefix)) return routes.api.answer(call);
  if (path.startsWith('/oauth/')) return routes.oauth.answer(call);
  if (path.startsWith('/tiles/')) return answerTile(routes.tiles, path);
  return routes.home.answer(call);
}

/** Whether a call to this path uses up the rate budget: all of the API except the push subscriptions. */
export function isCounted(path: string): boolean {
  return path.startsWith(apiPrefix) && !isSubscriptionPath(path);
}

/** The activity a path is about. */
export function activityIdOf(path: string): string | undefined {
  if (!path.startsWith(activityPrefix)) return undefined;
  const id = path.slice(activityPrefix.length);
  return /^\d{1,19}$/.test(id) ? id : undefined;
}

function isSubscriptionPath(path: string): boolean {
  return path.startsWith(subscriptionsPath);
}

async function answerTile(tiles: TileBook, path: string): Promise<Answer> {
  const tile = await tiles.tileAt(path);
  if (tile === undefined) return { status: 404, body: '' };
  return { status: 200, body: tile, type: 'image/png', headers: { 'Cache-Control': 'public, max-age=86400' } };
}
