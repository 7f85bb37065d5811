import { z } from 'zod';
import { toEpochSeconds } from '../../domain/moment.ts';
import { SyncRefusedError, type Syncs } from '../../flows/sync-progress.ts';
import { Problem } from '../problem.ts';
import { cutPage, nextCursorOut, pageLimit, timeOut } from '../query-fields.ts';
import { defineRoute, int64, int64Out, type Route } from '../route.ts';

const WRONG_MOMENT = 'must be a time: ISO 8601, or whole seconds since the epoch';

/** A time: ISO 8601, or whole seconds since the epoch. Epoch seconds inside. */
const moment = z
  .union([z.string(), z.number()], { error: WRONG_MOMENT })
  .transform((value, context) => {
    const seconds = toEpochSeconds(value);
    if (seconds !== undefined) return seconds;
    context.issues.push({ code: 'custom', input: value, message: WRONG_MOMENT });
    return z.NEVER;
  })
  .meta({ type: ['string', 'integer'], description: 'ISO 8601, or whole seconds since the epoch' });

const requestBody = z
  .strictObject({ after: moment.optional(), before: moment.optional(), force: z.boolean().default(false) })
  .refine(({ after, before }) => after === undefined || before === undefined || after < before, {
    path: ['before'],
    message: 'must be later than after',
  });

const syncOut = z.strictObject({
  id: int64Out,
  url: z.string(),
  athleteId: int64Out.nullable(),
  state: z.enum(['running', 'waiting', 'finished', 'cancelled', 'failed']),
  force: z.boolean(),
  after: timeOut.nullable(),
  before: timeOut,
  athletes: z.object({ total: z.int(), listed: z.int(), failed: z.int() }),
  pages: z.int(),
  listed: z.int(),
  queued: z.int(),
  fetched: z.int(),
  fetchesFailed: z.int(),
  total: z.int().nullable().meta({ description: 'Fetches in all, once every list is read' }),
  waitingUntil: timeOut.nullable(),
  expectedEnd: timeOut
    .nullable()
    .meta({ description: 'Estimated from the budget’s pace and the cooldown; null once it has ended' }),
  error: z.string().nullable(),
  createdAt: timeOut,
  finishedAt: timeOut.nullable(),
});
const accepted = {
  202: { description: 'Started', schema: z.strictObject({ id: int64Out, url: z.string() }) },
  409: { description: 'There is no athlete whose list can be read' },
};
const unknownSync = { 404: { description: 'No such sync' } };
const byId = z.object({ id: int64 });

// The audit is read by people: they gave times, not epoch seconds.
function inWords({ after, before, force }: z.output<typeof requestBody>): Record<string, unknown> {
  const iso = (seconds: number) => new Date(seconds * 1000).toISOString();
  return {
    ...(after === undefined ? {} : { after: iso(after) }),
    ...(before === undefined ? {} : { before: iso(before) }),
    force,
  };
}

function toProblem({ why, message }: SyncRefusedError): Problem {
  if (why === 'future')
    return new Problem('badRequest', message, {
      errors: [{ field: 'body.after', message: 'must not be in the future' }],
    });
  return new Problem(why === 'missing' ? 'notFound' : 'conflict', message);
}

/** Bulk syncs: starting, following and cancelling. */
export function adminSyncRoutes(deps: { syncs: Syncs }): Route[] {
  const begin = async (athleteId: string | undefined, body: z.output<typeof requestBody>) => {
    try {
      const id = await deps.syncs.start({
        athleteId,
        afterS: body.after,
        beforeS: body.before,
        force: body.force,
      });
      return {
        status: 202,
        body: { id, url: urlOf(id) },
        headers: { Location: urlOf(id) },
        audit: { athleteId, detail: { sync: id, ...inWords(body) } },
      };
    } catch (error) {
      if (error instanceof SyncRefusedError) throw toProblem(error);
      throw error;
    }
  };
  const show = async (id: string) => {
    const sync = await deps.syncs.find(id);
    if (!sync) throw new Problem('notFound', `There is no sync ${id}.`);
    return { ...sync, url: urlOf(sync.id) };
  };

  return [
    defineRoute({
      method: 'post',
      path: '/api/admin/athletes/:id/sync',
      summary: 'Start a bulk sync of one athlete',
      access: 'admin',
      params: byId,
      body: requestBody,
      bodyOptional: true,
      responses: { ...accepted, 404: { description: 'The athlete is not connected' } },
      handle: ({ params, body }) => begin(params.id, body),
    }),
    defineRoute({
      method: 'post',
      path: '/api/admin/sync',
      summary: 'Start a bulk sync of all athletes',
      access: 'admin',
      body: requestBody,
      bodyOptional: true,
      responses: accepted,
      handle: ({ body }) => begin(undefined, body),
    }),
    defineRoute({
      method: 'get',
      path: '/api/admin/sync/forecast',
      summary: 'What a bulk sync of all athletes would cost at least, and when it would end; starts nothing',
      access: 'read',
      query: z.strictObject({
        after: moment.optional(),
        before: moment.optional(),
        force: z.literal('true').optional(),
      }),
      responses: {
        200: {
          description: 'The forecast, by what is stored: each activity not stored yet costs one more call',
          schema: z.strictObject({ athletes: z.int(), calls: z.int(), expectedEnd: timeOut }),
        },
      },
      handle: async ({ query: { after, before, force } }) => ({
        status: 200,
        body: await deps.syncs.forecast({ afterS: after, beforeS: before, force: force === 'true' }),
      }),
    }),
    defineRoute({
      method: 'get',
      path: '/api/admin/syncs',
      summary: 'List bulk syncs, newest first',
      access: 'read',
      query: z.strictObject({ limit: pageLimit, cursor: int64.optional() }),
      responses: {
        200: {
          description: 'The syncs',
          schema: z.strictObject({ syncs: z.array(syncOut), nextCursor: nextCursorOut }),
        },
      },
      handle: async ({ query }) => {
        const found = await deps.syncs.list(query.limit + 1, query.cursor);
        const { page, nextCursor } = cutPage(found, query.limit, ({ id }) => id);
        return { status: 200, body: { syncs: page.map((sync) => ({ ...sync, url: urlOf(sync.id) })), nextCursor } };
      },
    }),
    defineRoute({
      method: 'get',
      path: '/api/admin/syncs/:id',
      summary: 'Show the progress of a bulk sync',
      access: 'read',
      params: byId,
      responses: { 200: { description: 'The sync', schema: syncOut }, ...unknownSync },
      handle: async ({ params }) => ({ status: 200, body: await show(params.id) }),
    }),
    defineRoute({
      method: 'post',
      path: '/api/admin/syncs/:id/cancel',
      summary: 'Cancel a bulk sync: nothing more is listed, and those of its jobs that have not started are removed',
      access: 'admin',
      params: byId,
      responses: {
        200: { description: 'The sync', schema: syncOut },
        ...unknownSync,
        409: { description: 'It has already ended' },
      },
      handle: async ({ params }) => {
        const cancelled = await deps.syncs.cancel(params.id);
        const sync = await show(params.id);
        if (cancelled === false && sync.state !== 'cancelled')
          throw new Problem('conflict', `Sync ${params.id} has already ended; it is ${sync.state}.`);
        return { status: 200, body: sync, audit: { athleteId: sync.athleteId ?? undefined } };
      },
    }),
  ];
}

function urlOf(id: string): string {
  return `/api/admin/syncs/${id}`;
}
