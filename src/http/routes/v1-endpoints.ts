import { z } from 'zod';
import { DELIVERED_TYPES } from '../../domain/change.ts';
import { EndpointLimitError, type Endpoints } from '../../flows/manage-endpoints.ts';
import type { Database } from '../../infra/database.ts';
import { ForbiddenAddressError } from '../../infra/outbound-address.ts';
import { listAttempts } from '../../store/delivery-log.ts';
import { findEndpoint, listEndpoints } from '../../store/endpoints.ts';
import { ATTEMPT_RESULTS, endpointOut } from '../endpoint-body.ts';
import { Problem } from '../problem.ts';
import { cutPage, nextCursorOut, pageLimit, time, timeOut } from '../query-fields.ts';
import { defineRoute, int64, int64Out, type Route } from '../route.ts';

const secretOut = z.string().meta({ description: 'Shown this once; deliveries are signed with it' });
const attemptOut = z.strictObject({
  id: int64Out,
  deliveryId: int64Out,
  changeId: z.uuid().meta({ description: 'The webhook-id' }),
  type: z.string(),
  athleteId: int64Out.nullable(),
  activityId: int64Out.nullable(),
  at: timeOut,
  durationMs: z.int(),
  status: z.int().nullable().meta({ description: 'null when there was no answer' }),
  error: z.string().nullable(),
  answer: z.string().nullable().meta({ description: 'The first kilobyte of it' }),
  result: z.enum(ATTEMPT_RESULTS),
});
const queuedOut = z.strictObject({ changeId: z.uuid().meta({ description: 'The webhook-id of what is sent' }) });

const settings = {
  url: z
    .string()
    .max(2000)
    .meta({ format: 'uri', description: 'https, and public unless OUTBOUND_ALLOW_PRIVATE is set' }),
  types: z.array(z.enum(DELIVERED_TYPES)).min(1).max(DELIVERED_TYPES.length).nullable(),
  athleteIds: z.array(int64).min(1).max(1000).nullable(),
  description: z.string().max(500),
};
const endpointPath = z.object({ id: int64 });
const attemptPath = z.object({ id: int64, attemptId: int64 });
const NO_ENDPOINT = { description: 'No such endpoint' };

/** Endpoints of the application: where changes are sent, and how that went. */
export function v1EndpointRoutes(deps: { database: Database; endpoints: Endpoints }): Route[] {
  const { database, endpoints } = deps;
  return [
    defineRoute({
      method: 'get',
      path: '/api/v1/endpoints',
      summary: 'Endpoints, oldest first',
      access: 'read',
      query: z.strictObject({ limit: pageLimit, cursor: int64.optional() }),
      responses: {
        200: {
          description: 'A page of endpoints',
          schema: z.strictObject({ endpoints: z.array(endpointOut), nextCursor: nextCursorOut }),
        },
      },
      handle: async ({ query: { limit, cursor } }) => {
        const rows = await listEndpoints(database, { afterId: cursor, limit: limit + 1 });
        const { page, nextCursor } = cutPage(rows, limit, ({ id }) => id);
        return { status: 200, body: { endpoints: page, nextCursor } };
      },
    }),
    defineRoute({
      method: 'post',
      path: '/api/v1/endpoints',
      summary: 'Send changes to an address from now on',
      access: 'write',
      body: z.strictObject({
        url: settings.url,
        types: settings.types.default(null),
        athleteIds: settings.athleteIds.default(null),
        description: settings.description.default(''),
      }),
      responses: {
        201: { description: 'Created', schema: z.strictObject({ ...endpointOut.shape, secret: secretOut }) },
        409: { description: 'The limit of endpoints is reached' },
      },
      handle: async ({ body }) => ({ status: 201, body: await explained(() => endpoints.create(body)) }),
    }),
    defineRoute({
      method: 'get',
      path: '/api/v1/endpoints/:id',
      summary: 'One endpoint',
      access: 'read',
      params: endpointPath,
      responses: { 200: { description: 'The endpoint', schema: endpointOut }, 404: NO_ENDPOINT },
      handle: async ({ params: { id } }) => ({ status: 200, body: found(await findEndpoint(database, id), id) }),
    }),
    defineRoute({
      method: 'patch',
      path: '/api/v1/endpoints/:id',
      summary: 'Change, disable or re-enable an endpoint; once re-enabled it is sent what it missed',
      access: 'write',
      params: endpointPath,
      body: z.strictObject({ ...z.strictObject(settings).partial().shape, enabled: z.boolean().optional() }),
      responses: { 200: { description: 'As it is now', schema: endpointOut }, 404: NO_ENDPOINT },
      handle: async ({ params: { id }, body }) => ({
        status: 200,
        body: found(await explained(() => endpoints.update(id, body)), id),
      }),
    }),
    defineRoute({
      method: 'delete',
      path: '/api/v1/endpoints/:id',
      summary: 'Remove an endpoint with its log; nothing more is sent to it',
      access: 'write',
      params: endpointPath,
      responses: {
        200: { description: 'Removed', schema: z.strictObject({ deleted: z.literal(true) }) },
        404: NO_ENDPOINT,
      },
      handle: async ({ params: { id } }) => {
        found((await endpoints.remove(id)) || undefined, id);
        return { status: 200, body: { deleted: true } };
      },
    }),
    defineRoute({
      method: 'post',
      path: '/api/v1/endpoints/:id/rotate',
      summary: 'Give an endpoint a new secret; for a day deliveries are signed with both',
      access: 'write',
      params: endpointPath,
      responses: {
        200: { description: 'Rotated', schema: z.strictObject({ secret: secretOut, formerUntil: timeOut }) },
        404: NO_ENDPOINT,
      },
      handle: async ({ params: { id } }) => ({ status: 200, body: found(await endpoints.rotate(id), id) }),
    }),
    defineRoute({
      method: 'post',
      path: '/api/v1/endpoints/:id/test',
      summary: 'Send an endpoint.test',
      access: 'write',
      params: endpointPath,
      responses: { 202: { description: 'Queued', schema: queuedOut }, 404: NO_ENDPOINT },
      handle: async ({ params: { id } }) => ({ status: 202, body: found(await endpoints.sendTest(id), id) }),
    }),
    defineRoute({
      method: 'post',
      path: '/api/v1/endpoints/:id/replay',
      summary: 'Resend every change since a time, as far as changes are kept',
      access: 'write',
      params: endpointPath,
      body: z.strictObject({ since: time }),
      responses: {
        202: { description: 'Queued', schema: z.strictObject({ queued: z.int() }) },
        404: NO_ENDPOINT,
        409: { description: 'More changes than one replay may send again' },
      },
      handle: async ({ params: { id }, body: { since } }) => ({
        status: 202,
        body: { queued: found(await explained(() => endpoints.replay(id, since)), id) },
      }),
    }),
    defineRoute({
      method: 'get',
      path: '/api/v1/endpoints/:id/attempts',
      summary: 'Attempts at deliveries, newest first',
      access: 'read',
      params: endpointPath,
      query: z.strictObject({
        result: z.enum(ATTEMPT_RESULTS).optional(),
        activityId: int64.optional(),
        limit: pageLimit,
        cursor: int64.optional(),
      }),
      responses: {
        200: {
          description: 'A page of attempts',
          schema: z.strictObject({ attempts: z.array(attemptOut), nextCursor: nextCursorOut }),
        },
        404: NO_ENDPOINT,
      },
      handle: async ({ params: { id }, query: { limit, cursor, ...filter } }) => {
        found(await findEndpoint(database, id), id);
        const rows = await listAttempts(database, { endpointId: id, ...filter, beforeId: cursor, limit: limit + 1 });
        const { page, nextCursor } = cutPage(rows, limit, (row) => row.id);
        return { status: 200, body: { attempts: page, nextCursor } };
      },
    }),
    defineRoute({
      method: 'post',
      path: '/api/v1/endpoints/:id/attempts/:attemptId/resend',
      summary: 'Resend what an attempt sent, with the same webhook-id, behind what waits for that athlete',
      access: 'write',
      params: attemptPath,
      responses: {
        202: { description: 'Queued', schema: queuedOut },
        404: { description: 'No such endpoint or attempt' },
      },
      handle: async ({ params: { id, attemptId } }) => {
        const queued = await endpoints.resend(id, attemptId);
        if (!queued) throw new Problem('notFound', `Endpoint ${id} has no attempt ${attemptId}.`);
        return { status: 202, body: queued };
      },
    }),
  ];
}

function found<T>(value: T | undefined, id: string): T {
  if (value === undefined) throw new Problem('notFound', `There is no endpoint ${id}.`);
  return value;
}

async function explained<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof EndpointLimitError) throw new Problem('conflict', error.message);
    if (!(error instanceof ForbiddenAddressError)) throw error;
    throw new Problem('badRequest', `Nothing is sent to this url: ${error.message}.`, {
      errors: [{ field: 'body.url', message: error.message }],
    });
  }
}
