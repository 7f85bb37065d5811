import { z } from 'zod';
import type { Database } from '../../infra/database.ts';
import { findApplicationActivity, findRawActivity, listApplicationActivities } from '../../store/application-reads.ts';
import { findThumbnail } from '../../store/thumbnails.ts';
import { activityPageOut, applicationActivityOut, externalIdIn } from '../application-body.ts';
import { sendJsonWithEtag, sendThumbnail } from '../etag.ts';
import { Problem } from '../problem.ts';
import { cutPage, pageLimit, time, timeCursor } from '../query-fields.ts';
import { defineRoute, int64, type Route } from '../route.ts';

const activityPath = z.object({ id: int64 });
const NOT_CHANGED = { description: 'What If-None-Match names is still current' };
const NO_ACTIVITY = { description: 'Unknown, deleted or erased' };

/** The copy's activities, for the application. */
export function v1ActivityRoutes(deps: { database: Database }): Route[] {
  const { database } = deps;
  const notFound = (id: string) => new Problem('notFound', `No activity ${id} is stored.`);
  return [
    defineRoute({
      method: 'get',
      path: '/api/v1/activities',
      summary: 'Activities, newest first',
      access: 'read',
      query: z.strictObject({
        athleteId: int64.optional(),
        externalId: externalIdIn.optional(),
        updatedAfter: time.optional(),
        limit: pageLimit,
        cursor: timeCursor.optional(),
      }),
      responses: { 200: { description: 'A page of activities', schema: activityPageOut }, 304: NOT_CHANGED },
      handle: async ({ query: { cursor, limit, ...filter }, request, response }) => {
        const rows = await listApplicationActivities(database, {
          ...filter,
          before: cursor && { startDate: cursor.at, activityId: cursor.id },
          limit: limit + 1,
        });
        const { page, nextCursor } = cutPage(rows, limit, (row) => row.cursor);
        const activities = page.map(({ cursor: _cursor, ...activity }) => activity);
        sendJsonWithEtag(request, response, JSON.stringify({ activities, nextCursor }));
        return undefined;
      },
    }),
    defineRoute({
      method: 'get',
      path: '/api/v1/activities/:id',
      summary: 'One activity',
      access: 'read',
      params: activityPath,
      responses: {
        200: { description: 'The activity', schema: applicationActivityOut },
        304: NOT_CHANGED,
        404: NO_ACTIVITY,
      },
      handle: async ({ params, request, response }) => {
        const activity = await findApplicationActivity(database, params.id);
        if (!activity) throw notFound(params.id);
        sendJsonWithEtag(request, response, JSON.stringify(activity));
        return undefined;
      },
    }),
    defineRoute({
      method: 'get',
      path: '/api/v1/activities/:id/raw',
      summary: 'The provider’s whole answer about an activity, as it came: ids in it may exceed 2^53',
      access: 'read',
      params: activityPath,
      responses: {
        200: { description: 'The provider’s answer', schema: z.record(z.string(), z.unknown()) },
        304: NOT_CHANGED,
        404: NO_ACTIVITY,
      },
      handle: async ({ params, request, response }) => {
        const raw = await findRawActivity(database, params.id);
        if (raw === undefined) throw notFound(params.id);
        sendJsonWithEtag(request, response, raw);
        return undefined;
      },
    }),
    defineRoute({
      method: 'get',
      path: '/api/v1/activities/:id/thumbnail',
      summary: 'An activity’s picture',
      access: 'read',
      params: activityPath,
      responses: {
        200: { description: 'The picture', contentType: 'image/png' },
        304: NOT_CHANGED,
        404: { description: 'No picture, or none yet' },
      },
      handle: async ({ params, request, response }) => {
        sendThumbnail(request, response, await findThumbnail(database, params.id));
        return undefined;
      },
    }),
  ];
}
