import { z } from 'zod';
import { SyncRefusedError, type Syncs } from '../../flows/sync-progress.ts';
import { Problem } from '../problem.ts';
import { defineRoute, int64, int64Out, type Route } from '../route.ts';

const MAX_EPOCH_S = 32_503_680_000; // the year 3000

/** A time: ISO 8601, or whole seconds since the epoch. Epoch seconds inside. */
const moment = z
  .union([z.string(), z.number()], { error: 'must be a time: ISO 8601, or whole seconds since the epoch' })
  .transform((value, context) => {
    const seconds = /^\d{1,11}$/.test(String(value)) ? Number(value) : Math.floor(Date.parse(String(value)) / 1000);
    if (typeof value !== 'string' && !Number.isSafeInteger(value)) return refuse(context, value);
    return seconds >= 0 && seconds <= MAX_EPOCH_S ? seconds : refuse(context, value);
  })
  .meta({ type: ['string', 'integer'], description: 'ISO 8601, or whole seconds since the epoch' });

function refuse(context: z.core.ParsePayload, input: unknown): never {
  context.issues.push({
    code: 'custom',
    input,
    message: 'must be a time: ISO 8601, or whole seconds since the epoch',
  });
  return z.NEVER;
}

const requestBody = z
  .strictObject({ after: moment.optional(), before: moment.optional(), force: z.boolean().default(false) })
  .refine(({ after, before }) => after === undefined || before === undefined || after < before, {
    path: ['before'],
    message: 'must be later than after',
  });

const syncOut = z.object({
  id: int64Out,
  url: z.string(),
  athleteId: int64Out.nullable(),
  state: z.enum(['running', 'waiting', 'finished', 'cancelled', 'failed']),
  force: z.boolean(),
  after: z.string().nullable(),
  before: z.string(),
  athletes: z.object({ total: z.int(), listed: z.int(), failed: z.int() }),
  pages: z.int(),
  listed: z.int(),
  queued: z.int(),
  fetched: z.int(),
  fetchesFailed: z.int(),
  total: z.int().nullable(),
  waitingUntil: z.string().nullable(),
  expectedEnd: z.string().nullable(),
  error: z.string().nullable(),
  createdAt: z.string(),
  finishedAt: z.string().nullable(),
});
const accepted = { 202: { description: 'Begun', schema: z.object({ id: int64Out, url: z.string() }) } };
const byId = z.strictObject({ id: int64 });

/** Bulk syncs: begun, watched, cancelled. */
export function adminSyncRoutes(deps: { syncs: Syncs }): Route[] {
  const begin = async (athleteId: string | undefined, body: z.output<typeof requestBody>) => {
    try {
      const id = await deps.syncs.start({
        athleteId,
        afterS: body.after,
        beforeS: body.before,
        force: body.force,
      });
      return { status: 202, body: { id, url: urlOf(id) }, headers: { Location: urlOf(id) } };
    } catch (error) {
      if (error instanceof SyncRefusedError) throw new Problem(error.missing ? 'notFound' : 'conflict', error.message);
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
      summary: 'Begin a bulk sync of one athlete',
      access: 'admin',
      params: byId,
      body: requestBody,
      bodyOptional: true,
      responses: accepted,
      handle: ({ params, body }) => begin(params.id, body),
    }),
    defineRoute({
      method: 'post',
      path: '/api/admin/sync',
      summary: 'Begin a bulk sync of all athletes',
      access: 'admin',
      body: requestBody,
      bodyOptional: true,
      responses: accepted,
      handle: ({ body }) => begin(undefined, body),
    }),
    defineRoute({
      method: 'get',
      path: '/api/admin/syncs',
      summary: 'List bulk syncs, newest first',
      access: 'read',
      query: z.strictObject({ limit: z.coerce.number().int().min(1).max(200).default(50), cursor: int64.optional() }),
      responses: {
        200: {
          description: 'The syncs',
          schema: z.object({ syncs: z.array(syncOut), nextCursor: int64Out.nullable() }),
        },
      },
      handle: async ({ query }) => {
        const found = await deps.syncs.list(query.limit + 1, query.cursor);
        const syncs = found.slice(0, query.limit).map((sync) => ({ ...sync, url: urlOf(sync.id) }));
        return {
          status: 200,
          body: { syncs, nextCursor: found.length > query.limit ? (syncs.at(-1)?.id ?? null) : null },
        };
      },
    }),
    defineRoute({
      method: 'get',
      path: '/api/admin/syncs/:id',
      summary: 'Show how a bulk sync stands',
      access: 'read',
      params: byId,
      responses: { 200: { description: 'The sync', schema: syncOut } },
      handle: async ({ params }) => ({ status: 200, body: await show(params.id) }),
    }),
    defineRoute({
      method: 'post',
      path: '/api/admin/syncs/:id/cancel',
      summary: 'Cancel a bulk sync: nothing more is listed, and what it queued and nobody has begun is removed',
      access: 'admin',
      params: byId,
      responses: { 200: { description: 'The sync', schema: syncOut } },
      handle: async ({ params }) => {
        const cancelled = await deps.syncs.cancel(params.id);
        const sync = await show(params.id);
        if (cancelled === false && sync.state !== 'cancelled')
          throw new Problem('conflict', `Sync ${params.id} has ended already; it is ${sync.state}.`);
        return { status: 200, body: sync };
      },
    }),
  ];
}

function urlOf(id: string): string {
  return `/api/admin/syncs/${id}`;
}
