import express, { type RequestHandler, Router } from 'express';
import { type Int64, toInt64 } from '../../domain/int64.ts';
import type { Database } from '../../infra/database.ts';
import { listActivities } from '../../store/activities.ts';
import { findThumbnail } from '../../store/thumbnails.ts';
import { type AdminAuth, adminClosed, CHALLENGE, refuseForeignOrigin } from '../admin-auth.ts';
import { sendThumbnail } from '../etag.ts';
import { renderActivitiesPage } from '../pages/activities-page.ts';
import { renderPage, STYLE, STYLE_PATH } from '../pages/page.ts';
import { Problem, refuseOtherMethods } from '../problem.ts';
import { cutPage, timeCursor } from '../query-fields.ts';
import type { SignIn } from '../sign-in.ts';

const SHOWN = 60;
const PICTURE_PATH = '/activities/:id/thumbnail.png';

export interface PageDependencies {
  database: Database;
  auth: AdminAuth;
  /** True in the demo: the activities may be seen without signing in. */
  open: boolean;
  signIn: SignIn;
}

/** The plain pages: newest activities, and sign-in. */
export function createPagesRouter(deps: PageDependencies): Router {
  const router = Router();
  const mayLook: RequestHandler = async (request, response, next) => {
    if (deps.open || (await deps.auth.accessOf(request))) return next();
    response.redirect(302, '/sign-in');
  };

  router.get(STYLE_PATH, (_request, response) => {
    response.set('Cache-Control', 'public, max-age=300').type('text/css').send(STYLE);
  });
  router.get('/', mayLook, async (request, response) => {
    const before = readCursor(request.query.before);
    const found = await listActivities(deps.database, { limit: SHOWN + 1, before });
    const { page, nextCursor } = cutPage(found, SHOWN, ({ cursor }) => cursor);
    response
      .set('Cache-Control', 'no-store')
      .send(renderActivitiesPage(page, { older: nextCursor, isFirst: before === undefined }));
  });
  router.get(PICTURE_PATH, mayLook, async (request, response) => {
    const id = toInt64(request.params.id);
    sendThumbnail(request, response, id === undefined ? undefined : await findThumbnail(deps.database, id));
  });
  router.get('/sign-in', (_request, response) => {
    response.send(renderPage('Sign in', deps.auth.isClosed ? CLOSED : SIGN_IN_FORM));
  });
  router.post('/sign-in', express.urlencoded({ extended: false, limit: '4kb' }), async (request, response) => {
    refuseForeignOrigin(request);
    const { token } = (request.body ?? {}) as { token?: unknown };
    if (typeof token === 'string' && (await deps.signIn.begin(token, 'POST /sign-in', request, response)))
      response.redirect(303, '/');
    else
      response
        .status(401)
        .set(CHALLENGE)
        .send(
          renderPage(
            'Sign in',
            `<p class="error" role="alert">This is neither the admin token nor the read token.</p>${SIGN_IN_FORM}`,
          ),
        );
  });
  for (const path of [STYLE_PATH, '/', PICTURE_PATH]) router.all(path, refuseOtherMethods('GET', 'HEAD'));
  router.all('/sign-in', refuseOtherMethods('GET', 'HEAD', 'POST'));
  return router;
}

/** Where a page of activities begins. @throws Problem for a value that no page issued */
function readCursor(value: unknown): { startDate: string; activityId: Int64 } | undefined {
  if (value === undefined) return undefined;
  const cursor = timeCursor.safeParse(value);
  if (!cursor.success) throw new Problem('notFound', 'There is no such page of activities.');
  return { startDate: cursor.data.at, activityId: cursor.data.id };
}

const CLOSED = `<p class="error" role="alert">${adminClosed().message}</p>`;
const SIGN_IN_FORM = `<form class="sign-in" method="post" action="/sign-in">
<label for="token">Admin token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button type="submit">Sign in</button>
</form>`;
