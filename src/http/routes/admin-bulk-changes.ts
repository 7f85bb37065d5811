import { z } from 'zod';
import { STATUSES } from '../../domain/job.ts';
import { type BulkDependencies, startBulkChange } from '../../flows/bulk-changes.ts';
import { BULK_ACTIONS, BULK_STATES, cancelBulkChange, JOB_ACTIONS, listBulkChanges } from '../../store/bulk-changes.ts';
import { countActivitiesToReplay } from '../../store/webhook-events.ts';
import { jobFilterFields } from '../job-body.ts';
import { Problem } from '../problem.ts';
import { timeOut } from '../query-fields.ts';
import { defineRoute, int64, int64Out, type Route } from '../route.ts';
import { eventFilterFields } from '../webhook-event-body.ts';

const SHOWN = 20;
const PATH = '/api/admin/job-changes';

const changeOut = z.strictObject({
  id: int64Out,
  action: z.enum(BULK_ACTIONS),
  filter: z.record(z.string(), z.unknown()),
  by: z.enum(['admin', 'session']),
  total: z.int().meta({ description: 'Jobs, or activities of deliveries, that matched at the start' }),
  changed: z.int(),
  state: z
    .enum(BULK_STATES)
    .meta({ description: 'interrupted: its process stopped or died, and the rest is unchanged; send it again' }),
  error: z.string().nullable(),
  startedAt: timeOut,
  finishedAt: timeOut.nullable(),
});

const startedOut = { description: 'Started', schema: z.strictObject({ id: int64Out, total: z.int() }) };

function toStarted(action: string, filter: object, started: Awaited<ReturnType<typeof startBulkChange>>) {
  const { id, total, athleteId } = started;
  const detail = JSON.parse(JSON.stringify({ action, ...filter, total })) as Record<string, unknown>;
  return { status: 202, body: { id, total }, audit: { target: id, athleteId, detail } };
}

const requestBody = z
  .strictObject({ action: z.enum(JOB_ACTIONS), status: z.enum(STATUSES), ...jobFilterFields })
  .refine(({ action, status }) => action !== 'retry' || status === 'failed' || status === 'done', {
    path: ['status'],
    message: 'must be failed or done: other jobs run without a retry',
  });

/** Changes of many jobs that run in the background, with progress, and can be cancelled. */
export function adminBulkChangeRoutes(deps: BulkDependencies): Route[] {
  const { database } = deps;
  return [
    defineRoute({
      method: 'get',
      path: PATH,
      summary: 'The newest bulk changes of jobs and replays of deliveries, with their progress',
      access: 'read',
      responses: {
        200: {
          description: `At most ${SHOWN}, newest first`,
          schema: z.strictObject({ changes: z.array(changeOut) }),
        },
      },
      handle: async () => ({ status: 200, body: { changes: await listBulkChanges(database, SHOWN) } }),
    }),
    defineRoute({
      method: 'post',
      path: PATH,
      summary: 'Retry, force re-fetch or delete all jobs that match, in the background',
      access: 'admin',
      body: requestBody,
      responses: { 202: startedOut },
      handle: async ({ body: { action, ...filter }, response }) =>
        toStarted(action, filter, await startBulkChange(deps, { action, filter, by: response.locals.who })),
    }),
    defineRoute({
      method: 'get',
      path: '/api/admin/webhook-events/count',
      summary: 'How many activities have a delivery that matches, for a replay',
      access: 'read',
      query: z.strictObject(eventFilterFields),
      responses: { 200: { description: 'The count', schema: z.strictObject({ activities: z.int() }) } },
      handle: async ({ query }) => ({
        status: 200,
        body: { activities: await countActivitiesToReplay(database, query) },
      }),
    }),
    defineRoute({
      method: 'post',
      path: '/api/admin/webhook-events/replay',
      summary:
        'Replay of each activity the newest delivery that matches, in the background: see /api/admin/job-changes',
      access: 'admin',
      body: z
        .strictObject(eventFilterFields)
        .refine((filter) => Object.values(filter).some((value) => value !== undefined), 'needs at least one filter'),
      responses: { 202: startedOut },
      handle: async ({ body: filter, response }) =>
        toStarted('replay', filter, await startBulkChange(deps, { action: 'replay', filter, by: response.locals.who })),
    }),
    defineRoute({
      method: 'post',
      path: `${PATH}/:id/cancel`,
      summary: 'Cancel a bulk change behind its current batch; what is changed stays',
      access: 'admin',
      params: z.object({ id: int64 }),
      responses: {
        200: { description: 'It ends', schema: z.strictObject({ cancelled: z.literal(true) }) },
        409: { description: 'It is not running' },
      },
      handle: async ({ params: { id } }) => {
        if (!(await cancelBulkChange(database, id))) throw new Problem('conflict', `Bulk change ${id} is not running.`);
        return { status: 200, body: { cancelled: true } };
      },
    }),
  ];
}
