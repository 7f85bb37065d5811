import { z } from 'zod';
import { REASONS } from '../../domain/job.ts';
import type { Database } from '../../infra/database.ts';
import { createPacedRead } from '../../infra/paced-read.ts';
import { listPauses, pauseFetching, resumeFetching } from '../../store/fetch-pauses.ts';
import type { JobCounts } from '../../store/job-counts.ts';
import type { Waits } from '../../store/job-waits.ts';
import { listProcesses, readThumbnailDepth } from '../../store/processes.ts';
import { Problem } from '../problem.ts';
import { timeOut } from '../query-fields.ts';
import { defineRoute, type Route } from '../route.ts';

const pausable = z.enum(['all', ...REASONS]);
export const pauseOut = z.strictObject({ reason: pausable, pausedBy: z.string(), pausedAt: timeOut, note: z.string() });
const pausesOut = z.strictObject({ pauses: z.array(pauseOut) });
const depthOut = z.strictObject({ waiting: z.int(), running: z.int(), oldestDueS: z.number() });
const processOut = z.strictObject({
  id: z.string(),
  host: z.string(),
  pid: z.int(),
  roles: z.array(z.string()),
  version: z.string(),
  startedAt: timeOut,
  lastSeenAt: timeOut,
  alive: z.boolean().meta({ description: 'Its connection to the database is up' }),
  fetching: z.int().meta({ description: 'Fetch jobs in hand' }),
  drawing: z.int().meta({ description: 'Thumbnail jobs in hand' }),
});
const text = (most: number) => z.string().trim().min(1, 'must not be empty').max(most);

/** Fetching that is paused and resumed; the processes that work, and their queues. */
export function adminFetchingRoutes(deps: {
  database: Database;
  readCounts: () => Promise<JobCounts>;
  readWaits: () => Promise<Waits>;
}): Route[] {
  const { database } = deps;
  const readThumbnails = createPacedRead(() => readThumbnailDepth(database));
  const show = async () => ({ pauses: await listPauses(database) });
  return [
    defineRoute({
      method: 'post',
      path: '/api/admin/fetching/pause',
      summary: 'Pause fetching, all or for one reason; running fetches finish, and nothing is lost',
      access: 'admin',
      body: z.strictObject({ reason: pausable, by: text(100), note: text(500) }),
      responses: {
        200: { description: 'The pauses in force', schema: pausesOut },
        409: { description: 'It is already paused' },
      },
      handle: async ({ body: { reason, by, note } }) => {
        const paused = await database.transaction((tx) => pauseFetching(tx, { reason, pausedBy: by, note }));
        if (!paused) throw new Problem('conflict', `Fetching is already paused: ${reason}.`);
        return { status: 200, body: await show(), audit: { target: reason, detail: { note } } };
      },
    }),
    defineRoute({
      method: 'post',
      path: '/api/admin/fetching/resume',
      summary: 'Resume fetching that was paused',
      access: 'admin',
      body: z.strictObject({ reason: pausable }),
      responses: {
        200: { description: 'The pauses still in force', schema: pausesOut },
        409: { description: 'It is not paused' },
      },
      handle: async ({ body: { reason } }) => {
        const resumed = await database.transaction((tx) => resumeFetching(tx, reason));
        if (!resumed) throw new Problem('conflict', `Fetching is not paused: ${reason}.`);
        return { status: 200, body: await show(), audit: { target: reason } };
      },
    }),
    defineRoute({
      method: 'get',
      path: '/api/admin/processes',
      summary: 'The processes of the service with their jobs in hand, both queues, and what is paused',
      access: 'read',
      responses: {
        200: {
          description: 'Processes seen within the last day, living ones first',
          schema: z.strictObject({
            processes: z.array(processOut),
            queues: z.strictObject({ fetch: depthOut, thumbnail: depthOut }),
            pauses: z.array(pauseOut),
          }),
        },
      },
      handle: async () => {
        const [processes, counts, waits, thumbnail, pauses] = await Promise.all([
          listProcesses(database),
          deps.readCounts(),
          deps.readWaits(),
          readThumbnails(),
          listPauses(database),
        ]);
        const oldestDueS = Math.max(...REASONS.map((reason) => waits[reason].oldestDueS));
        const fetch = { waiting: counts.pending, running: counts.working, oldestDueS };
        return { status: 200, body: { processes, queues: { fetch, thumbnail }, pauses } };
      },
    }),
  ];
}
