import { z } from 'zod';
import { CHANGE_TYPES } from '../../domain/change.ts';
import type { Database } from '../../infra/database.ts';
import {
  FIGURES_OF,
  findWatchedEndpoint,
  listWatchedEndpoints,
  MOST_WAITING,
  type WatchedEndpointRow,
} from '../../store/endpoint-figures.ts';
import { listToldChanges, MOST_CHANGES, type ToldChangeRow } from '../../store/told-changes.ts';
import { ATTEMPT_RESULTS, endpointOut } from '../endpoint-body.ts';
import { Problem } from '../problem.ts';
import { cutPage, nextCursorOut, pageLimit, timeOut } from '../query-fields.ts';
import { defineRoute, int64, int64Out, type Route } from '../route.ts';

const watchedOut = z.strictObject({
  ...endpointOut.shape,
  formerUntil: timeOut.nullable().meta({ description: 'Until when deliveries are also signed with the former secret' }),
  waiting: z.int().meta({ description: `Deliveries not yet settled; counted up to ${MOST_WAITING}` }),
  waitingSince: timeOut.nullable().meta({ description: 'When the oldest of them was queued' }),
  recent: z
    .strictObject({
      attempts: z.int(),
      delivered: z.int(),
      p50Ms: z.int().nullable(),
      p95Ms: z.int().nullable(),
    })
    .meta({ description: `Of the last ${FIGURES_OF.hours} hours, at most the newest ${FIGURES_OF.attempts} attempts` }),
  lastFailure: z
    .strictObject({
      at: timeOut,
      status: z.int().nullable().meta({ description: 'null when there was no answer' }),
      error: z.string().nullable(),
      result: z.enum(ATTEMPT_RESULTS),
    })
    .nullable(),
});
const toldOut = z.strictObject({
  id: z.uuid().meta({ description: 'The webhook-id' }),
  type: z.enum(CHANGE_TYPES),
  at: timeOut,
  deliveries: z
    .array(
      z.strictObject({
        id: int64Out,
        endpointId: int64Out,
        url: z.string(),
        state: z.enum(['waiting', 'delivered', 'exhausted']),
        attempts: z.int(),
        queuedAt: timeOut,
        settledAt: timeOut.nullable(),
      }),
    )
    .meta({ description: 'Newest first; several to one endpoint if it was resent' }),
});

/** The application's endpoints with their figures, and which of them each change of an activity was sent to. */
export function adminEndpointRoutes(deps: { database: Database }): Route[] {
  const { database } = deps;
  return [
    defineRoute({
      method: 'get',
      path: '/api/admin/endpoints',
      summary: 'Endpoints of the application with their figures, oldest first',
      access: 'read',
      query: z.strictObject({ limit: pageLimit, cursor: int64.optional() }),
      responses: {
        200: {
          description: 'A page of endpoints',
          schema: z.strictObject({ endpoints: z.array(watchedOut), nextCursor: nextCursorOut }),
        },
      },
      handle: async ({ query: { limit, cursor } }) => {
        const rows = await listWatchedEndpoints(database, { afterId: cursor, limit: limit + 1 });
        const { page, nextCursor } = cutPage(rows, limit, ({ id }) => id);
        return { status: 200, body: { endpoints: page.map(toWatchedBody), nextCursor } };
      },
    }),
    defineRoute({
      method: 'get',
      path: '/api/admin/endpoints/:id',
      summary: 'One endpoint with its figures',
      access: 'read',
      params: z.object({ id: int64 }),
      responses: {
        200: { description: 'The endpoint', schema: watchedOut },
        404: { description: 'No such endpoint' },
      },
      handle: async ({ params: { id } }) => {
        const row = await findWatchedEndpoint(database, id);
        if (!row) throw new Problem('notFound', `There is no endpoint ${id}.`);
        return { status: 200, body: toWatchedBody(row) };
      },
    }),
    defineRoute({
      method: 'get',
      path: '/api/admin/activities/:id/changes',
      summary: `The newest ${MOST_CHANGES} stored changes of an activity, and the endpoints that each was sent to`,
      access: 'read',
      params: z.object({ id: int64 }),
      responses: {
        200: {
          description: 'Newest first; empty if none is stored',
          schema: z.strictObject({ changes: z.array(toldOut) }),
        },
      },
      handle: async ({ params: { id } }) => ({
        status: 200,
        body: { changes: toToldBodies(await listToldChanges(database, id)) },
      }),
    }),
  ];
}

function toWatchedBody(row: WatchedEndpointRow) {
  const { attempts, delivered, p50Ms, p95Ms, failedAt, failedStatus, failedError, failedResult, ...endpoint } = row;
  return {
    ...endpoint,
    recent: { attempts, delivered, p50Ms, p95Ms },
    lastFailure:
      failedAt === null ? null : { at: failedAt, status: failedStatus, error: failedError, result: failedResult },
  };
}

/** Groups the deliveries by change. */
function toToldBodies(rows: readonly ToldChangeRow[]) {
  const changes = new Map<string, Pick<ToldChangeRow, 'type' | 'at'> & { id: string; deliveries: object[] }>();
  for (const { changeId: id, type, at, deliveryId, ...delivery } of rows) {
    const change = changes.get(id) ?? { id, type, at, deliveries: [] };
    if (deliveryId !== null) change.deliveries.push({ id: deliveryId, ...delivery });
    changes.set(id, change);
  }
  return [...changes.values()];
}
