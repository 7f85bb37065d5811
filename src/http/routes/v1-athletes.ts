import { z } from 'zod';
import type { DisconnectAthlete } from '../../flows/disconnect-athlete.ts';
import type { Database } from '../../infra/database.ts';
import { findApplicationAthlete, listApplicationAthletes } from '../../store/application-reads.ts';
import { applicationAthleteOut, athletePageOut, externalIdIn } from '../application-body.ts';
import { sendJsonWithEtag } from '../etag.ts';
import { Problem } from '../problem.ts';
import { cutPage, pageLimit, time } from '../query-fields.ts';
import { defineRoute, int64, type Route } from '../route.ts';

const athletePath = z.object({ id: int64 });
const NOT_CHANGED = { description: 'What If-None-Match names is still current' };

/** The connected athletes, for the application. */
export function v1AthleteRoutes(deps: { database: Database; disconnect: DisconnectAthlete }): Route[] {
  const { database } = deps;
  return [
    defineRoute({
      method: 'get',
      path: '/api/v1/athletes',
      summary: 'Connected athletes, in order of their ids',
      access: 'read',
      query: z.strictObject({
        externalId: externalIdIn.optional(),
        updatedAfter: time.optional(),
        limit: pageLimit,
        cursor: int64.optional(),
      }),
      responses: { 200: { description: 'A page of athletes', schema: athletePageOut }, 304: NOT_CHANGED },
      handle: async ({ query: { cursor, limit, ...filter }, request, response }) => {
        const rows = await listApplicationAthletes(database, { ...filter, afterId: cursor, limit: limit + 1 });
        const { page, nextCursor } = cutPage(rows, limit, ({ id }) => id);
        sendJsonWithEtag(request, response, JSON.stringify({ athletes: page, nextCursor }));
        return undefined;
      },
    }),
    defineRoute({
      method: 'get',
      path: '/api/v1/athletes/:id',
      summary: 'One connected athlete',
      access: 'read',
      params: athletePath,
      responses: {
        200: { description: 'The athlete', schema: applicationAthleteOut },
        304: NOT_CHANGED,
        404: { description: 'Not connected' },
      },
      handle: async ({ params, request, response }) => {
        const athlete = await findApplicationAthlete(database, params.id);
        if (!athlete) throw new Problem('notFound', `Athlete ${params.id} is not connected.`);
        sendJsonWithEtag(request, response, JSON.stringify(athlete));
        return undefined;
      },
    }),
    defineRoute({
      method: 'delete',
      path: '/api/v1/athletes/:id',
      summary: 'Disconnect an athlete, and erase everything stored about them',
      access: 'write',
      params: athletePath,
      responses: {
        200: { description: 'Erased', schema: z.strictObject({ erased: z.literal(true), providerTold: z.boolean() }) },
        404: { description: 'Nothing is stored about this athlete' },
      },
      handle: async ({ params }) => {
        const result = await deps.disconnect(params.id);
        if (!result) throw new Problem('notFound', `Nothing is stored about athlete ${params.id}.`);
        return { status: 200, body: { erased: true, ...result } };
      },
    }),
  ];
}
