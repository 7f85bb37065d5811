import { z } from 'zod';
import type { Database } from '../../infra/database.ts';
import { type ActivityRow, findActivity, listActivities } from '../../store/activities.ts';
import { findThumbnail } from '../../store/thumbnails.ts';
import { sendThumbnail } from '../etag.ts';
import { Problem } from '../problem.ts';
import { cutPage, nextCursorOut, pageLimit, timeCursor, timeOut } from '../query-fields.ts';
import { defineRoute, int64, int64Out, type Route } from '../route.ts';

const activityOut = z.strictObject({
  id: int64Out,
  athleteId: int64Out,
  name: z.string(),
  sportType: z.string(),
  startDate: timeOut,
  timezone: z.string().nullable(),
  distanceM: z.number(),
  movingTimeS: z.int(),
  elapsedTimeS: z.int(),
  elevationGainM: z.number(),
  private: z.boolean(),
  fetchedAt: timeOut,
  thumbnail: z
    .string()
    .nullable()
    .meta({ description: 'Path of the picture; it changes with the picture, and is null until one is drawn' }),
});
const wholeActivityOut = z.strictObject({
  ...activityOut.shape,
  polyline: z.string().nullable(),
  detail: z
    .record(z.string(), z.unknown())
    .meta({ description: 'The provider’s whole answer, numbers unchanged: ids in it may exceed 2^53' }),
});
const activityPath = z.object({ id: int64 });

/** Stored activities. */
export function adminActivityRoutes(deps: { database: Database }): Route[] {
  const { database } = deps;
  return [
    defineRoute({
      method: 'get',
      path: '/api/admin/activities',
      summary: 'Stored activities, newest first',
      access: 'read',
      query: z.strictObject({ athleteId: int64.optional(), limit: pageLimit, cursor: timeCursor.optional() }),
      responses: {
        200: {
          description: 'A page of activities',
          schema: z.strictObject({ activities: z.array(activityOut), nextCursor: nextCursorOut }),
        },
      },
      handle: async ({ query: { athleteId, limit, cursor } }) => {
        const rows = await listActivities(database, {
          athleteId,
          before: cursor && { startDate: cursor.at, activityId: cursor.id },
          limit: limit + 1,
        });
        const { page, nextCursor } = cutPage(rows, limit, (row) => row.cursor);
        return { status: 200, body: { activities: page.map(toBody), nextCursor } };
      },
    }),
    defineRoute({
      method: 'get',
      path: '/api/admin/activities/:id',
      summary: 'One activity with the provider’s whole answer',
      access: 'read',
      params: activityPath,
      responses: {
        200: { description: 'The activity', schema: wholeActivityOut },
        404: { description: 'Unknown or erased' },
      },
      handle: async ({ params, response }) => {
        const row = await findActivity(database, params.id);
        if (!row) throw new Problem('notFound', `No activity ${params.id} is stored.`);
        // The detail is spliced in as text: parsing it here would round the 64-bit ids in it.
        const known = JSON.stringify({ ...toBody(row), polyline: row.polyline });
        response.type('json').send(`${known.slice(0, -1)},"detail":${row.detail}}`);
        return undefined;
      },
    }),
    defineRoute({
      method: 'get',
      path: '/api/admin/activities/:id/thumbnail',
      summary: 'The activity’s picture',
      access: 'read',
      params: activityPath,
      query: z.strictObject({ version: z.string().max(100).optional() }),
      responses: {
        200: { description: 'The picture, with an ETag', contentType: 'image/png' },
        304: { description: 'The picture that If-None-Match names is still current' },
        404: { description: 'No picture' },
      },
      handle: async ({ params, request, response }) => {
        sendThumbnail(request, response, await findThumbnail(database, params.id));
        return undefined;
      },
    }),
  ];
}

function toBody(row: ActivityRow) {
  return {
    id: row.activity_id,
    athleteId: row.athlete_id,
    name: row.name,
    sportType: row.sport_type,
    startDate: row.start_date,
    timezone: row.timezone,
    distanceM: row.distance_m,
    movingTimeS: row.moving_time_s,
    elapsedTimeS: row.elapsed_time_s,
    elevationGainM: row.elevation_gain_m,
    private: row.private,
    fetchedAt: row.fetched_at,
    thumbnail: row.thumbnail_etag === null ? null : pathOfThumbnail(row.activity_id, row.thumbnail_etag),
  };
}

// A page that shows a picture asks again only for another address.
function pathOfThumbnail(id: string, etag: string): string {
  return `/api/admin/activities/${id}/thumbnail?version=${encodeURIComponent(etag.replaceAll('"', ''))}`;
}
