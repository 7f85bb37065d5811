import { z } from 'zod';
import type { DisconnectAthlete } from '../../flows/disconnect-athlete.ts';
import type { Database } from '../../infra/database.ts';
import { findAthlete, listAthletes } from '../../store/athlete-list.ts';
import { externalIdOut } from '../application-body.ts';
import { Problem } from '../problem.ts';
import { cutPage, nextCursorOut, pageLimit, timeOut } from '../query-fields.ts';
import { defineRoute, int64, int64Out, type Route } from '../route.ts';

const STATES = ['healthy', 'reconnect', 'scope'] as const;

const athleteOut = z.strictObject({
  id: int64Out,
  name: z.string().nullable(),
  externalId: externalIdOut,
  state: z
    .enum(STATES)
    .meta({ description: 'reconnect: the provider refuses their token; scope: the granted scope is insufficient' }),
  stateDetail: z.string().nullable(),
  scope: z.string().meta({ description: 'What they granted' }),
  connectedAt: timeOut,
  lastActivityAt: timeOut.nullable().meta({ description: 'Start of the newest stored activity' }),
  waitingJobs: z.int(),
  cooldownUntil: timeOut.nullable().meta({ description: 'End of the cooldown; set while no fetch for them may start' }),
});
const athletePath = z.object({ id: int64 });

/** Connected athletes: listing and disconnecting. */
export function adminAthleteRoutes(deps: { database: Database; disconnect: DisconnectAthlete }): Route[] {
  const { database } = deps;
  return [
    defineRoute({
      method: 'get',
      path: '/api/admin/athletes',
      summary: 'Connected athletes, in order of their ids',
      access: 'read',
      query: z.strictObject({ state: z.enum(STATES).optional(), limit: pageLimit, cursor: int64.optional() }),
      responses: {
        200: {
          description: 'A page of athletes',
          schema: z.strictObject({ athletes: z.array(athleteOut), nextCursor: nextCursorOut }),
        },
      },
      handle: async ({ query: { state, limit, cursor } }) => {
        const rows = await listAthletes(database, { state, afterId: cursor, limit: limit + 1 });
        const { page, nextCursor } = cutPage(rows, limit, ({ id }) => id);
        return { status: 200, body: { athletes: page, nextCursor } };
      },
    }),
    defineRoute({
      method: 'get',
      path: '/api/admin/athletes/:id',
      summary: 'One connected athlete',
      access: 'read',
      params: athletePath,
      responses: { 200: { description: 'The athlete', schema: athleteOut }, 404: { description: 'Not connected' } },
      handle: async ({ params }) => {
        const athlete = await findAthlete(database, params.id);
        if (!athlete) throw new Problem('notFound', `Athlete ${params.id} is not connected.`);
        return { status: 200, body: athlete };
      },
    }),
    defineRoute({
      method: 'delete',
      path: '/api/admin/athletes/:id',
      summary: 'Disconnect an athlete, and erase everything stored about them',
      access: 'admin',
      params: athletePath,
      responses: {
        200: {
          description: 'Erased',
          schema: z.strictObject({
            erased: z.literal(true),
            providerTold: z.boolean().meta({ description: 'Whether the provider revoked the access' }),
          }),
        },
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
