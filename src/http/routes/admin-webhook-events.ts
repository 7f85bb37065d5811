import type { PgBoss } from 'pg-boss';
import { z } from 'zod';
import { replayEvent } from '../../flows/replay-event.ts';
import type { Database } from '../../infra/database.ts';
import { findEvent, listEvents } from '../../store/webhook-events.ts';
import { Problem } from '../problem.ts';
import { cutPage, nextCursorOut, pageLimit, timeCursor } from '../query-fields.ts';
import { defineRoute, int64, int64Out, type Route } from '../route.ts';
import { eventFilterFields, ledgerEntryOut } from '../webhook-event-body.ts';

const READ_AHEAD = 201;

/** The ledger of deliveries. */
export function adminWebhookEventRoutes(deps: { database: Database; boss: PgBoss }): Route[] {
  const { database } = deps;
  return [
    defineRoute({
      method: 'get',
      path: '/api/admin/webhook-events',
      summary: 'Deliveries of the provider with their results, newest first',
      access: 'read',
      query: z.strictObject({
        ...eventFilterFields,
        limit: pageLimit,
        cursor: timeCursor.optional(),
      }),
      responses: {
        200: {
          description: 'A page of the ledger',
          schema: z.strictObject({ events: z.array(ledgerEntryOut), nextCursor: nextCursorOut }),
        },
      },
      handle: async ({ query: { limit, cursor, ...filter } }) => {
        const rows = await listEvents(database, filter, cursor, READ_AHEAD);
        const { page, nextCursor } = cutPage(rows, limit, (row) => row.cursor);
        return { status: 200, body: { events: page.map(({ cursor: _, ...event }) => event), nextCursor } };
      },
    }),
    defineRoute({
      method: 'post',
      path: '/api/admin/webhook-events/:id/replay',
      summary: 'Replay a delivery: fetch the activity even if it is stored, or delete it',
      access: 'admin',
      params: z.object({ id: int64 }),
      responses: {
        200: {
          description: 'Requested',
          schema: z.strictObject({ status: z.enum(['accepted', 'joined', 'stale']), jobId: int64Out }),
        },
        404: { description: 'No such event' },
      },
      handle: async ({ params, response }) => {
        const result = await replayEvent(deps, params.id, response.locals.who);
        if (!result) throw new Problem('notFound', `The ledger has no event ${params.id}.`);
        return {
          status: 200,
          body: { status: result.result, jobId: result.jobId },
          audit: { athleteId: result.athleteId, detail: { jobId: result.jobId } },
        };
      },
    }),
    defineRoute({
      method: 'get',
      path: '/api/admin/webhook-events/:id',
      summary: 'One delivery',
      access: 'read',
      params: z.object({ id: int64 }),
      responses: {
        200: { description: 'The event', schema: ledgerEntryOut },
        404: { description: 'No such event' },
      },
      handle: async ({ params }) => {
        const event = await findEvent(database, params.id);
        if (!event) throw new Problem('notFound', `The ledger has no event ${params.id}.`);
        return { status: 200, body: event };
      },
    }),
  ];
}
