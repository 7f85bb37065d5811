import type { PgBoss } from 'pg-boss';
import { z } from 'zod';
import { OUTCOMES, REASONS, STATUSES } from '../../domain/job.ts';
import { OtherAthleteError, requestJob } from '../../flows/request-job.ts';
import type { Database } from '../../infra/database.ts';
import { listAttempts } from '../../store/fetch-attempts.ts';
import { findFetchJob, readFetchJobs } from '../../store/fetch-jobs.ts';
import { listRequests, REQUEST_KINDS } from '../../store/fetch-requests.ts';
import { countJobs, type JobCounts } from '../../store/job-counts.ts';
import { groupFailures } from '../../store/job-errors.ts';
import { listJobIds } from '../../store/job-pages.ts';
import { findJobWait, WAIT_CAUSES } from '../../store/job-waits.ts';
import { listEventsOfActivity } from '../../store/webhook-events.ts';
import { jobFilterFields, jobOut, jobPath, statsOut, withTotal } from '../job-body.ts';
import { Problem } from '../problem.ts';
import { cutPage, nextCursorOut, pageLimit, timeOut } from '../query-fields.ts';
import { defineRoute, int64, int64Out, type Route } from '../route.ts';
import { deliveryOut } from '../webhook-event-body.ts';

const attemptOut = z.strictObject({
  startedAt: timeOut,
  endedAt: timeOut,
  result: z.enum(['done', 'retry', 'put_back', 'failed']).meta({
    description:
      'done: the job ended well; retry: failed, to be retried; put_back: released, attempts unchanged; failed: the job ended as failed',
  }),
  outcome: z.enum(OUTCOMES).nullable().meta({ description: 'How the run ended the job; null where it did not' }),
  error: z.string().nullable(),
});
const requestOut = z.strictObject({
  at: timeOut,
  kind: z.enum(REQUEST_KINDS).meta({
    description: 'connect: the athlete granted the access that the job lacked',
  }),
  by: z
    .enum(['admin', 'session'])
    .nullable()
    .meta({ description: 'The admin token, or a browser session; null for the service itself' }),
  source: int64Out.nullable().meta({ description: 'Of a replay the delivery, of a sync its id' }),
});
const errorGroupOut = z.strictObject({
  error: z.string().meta({ description: 'As the parameter `error` it finds these jobs' }),
  jobs: z.int(),
  newestAt: timeOut,
  newestJobId: int64Out,
});
const waitOut = z.strictObject({
  cause: z.enum([...WAIT_CAUSES, 'pause']),
  until: timeOut.nullable().meta({ description: 'null: as soon as a worker is free' }),
});

// One more than the largest page; the same number each time, so that the database knows the statement.
const READ_AHEAD = 201;
const SHOWN = 100;

/** Fetch jobs: listing and requesting. */
export function adminJobRoutes(deps: {
  database: Database;
  boss: PgBoss;
  readCounts: () => Promise<JobCounts>;
}): Route[] {
  const { database } = deps;
  const filter = { status: z.enum(STATUSES).optional(), ...jobFilterFields };
  return [
    defineRoute({
      method: 'get',
      path: '/api/admin/activity-jobs',
      summary: 'Statistics of the queue, and jobs, newest first',
      access: 'read',
      query: z.strictObject({ ...filter, limit: pageLimit, cursor: int64.optional() }),
      responses: {
        200: {
          description: 'Statistics of all jobs, and a page of those that match',
          schema: z.strictObject({ stats: statsOut, jobs: z.array(jobOut), nextCursor: nextCursorOut }),
        },
      },
      handle: async ({ query: { limit, cursor, ...wanted } }) => {
        const [counts, ids] = await Promise.all([deps.readCounts(), listJobIds(database, wanted, cursor, READ_AHEAD)]);
        const { page, nextCursor } = cutPage(ids, limit, (id) => id);
        return {
          status: 200,
          body: { stats: withTotal(counts), jobs: await readFetchJobs(database, page), nextCursor },
        };
      },
    }),
    defineRoute({
      method: 'get',
      path: '/api/admin/activity-jobs/count',
      summary: 'How many jobs match a filter',
      access: 'read',
      query: z.strictObject(filter),
      responses: { 200: { description: 'The count', schema: z.strictObject({ count: z.int() }) } },
      handle: async ({ query }) => ({ status: 200, body: { count: await countJobs(database, query) } }),
    }),
    defineRoute({
      method: 'get',
      path: '/api/admin/activity-jobs/errors',
      summary: 'Failed jobs grouped by their error, the largest group first',
      access: 'read',
      query: z.strictObject(jobFilterFields),
      responses: {
        200: {
          description: 'At most 50 groups of the newest 10,000 failed jobs that match',
          schema: z.strictObject({
            groups: z.array(errorGroupOut),
            jobs: z.int().meta({ description: 'How many jobs were grouped' }),
            isWhole: z.boolean().meta({ description: 'false: more jobs match' }),
          }),
        },
      },
      handle: async ({ query }) => ({ status: 200, body: await groupFailures(database, query) }),
    }),
    defineRoute({
      method: 'post',
      path: '/api/admin/activity-jobs',
      summary: 'Request a fetch',
      access: 'admin',
      body: z.strictObject({
        activityId: int64,
        athleteId: int64,
        reason: z.enum(REASONS).default('manual'),
        force: z.boolean().default(false),
      }),
      responses: {
        200: { description: 'Joined a job that was already open', schema: jobOut },
        201: { description: 'A new job, or a finished one that was reopened', schema: jobOut },
        409: { description: 'The activity has a job for another athlete, or is stored as theirs' },
      },
      handle: async ({ body, response }) => {
        try {
          const { job, joined } = await requestJob(deps, body, response.locals.who);
          return {
            status: joined ? 200 : 201,
            body: job,
            audit: { target: job.id, athleteId: job.athleteId, detail: { ...body } },
          };
        } catch (error) {
          if (error instanceof OtherAthleteError) throw new Problem('conflict', error.message);
          throw error;
        }
      },
    }),
    defineRoute({
      method: 'get',
      path: '/api/admin/activity-jobs/:id',
      summary: 'One job with every run, request and delivery, the newest 100 of each, and why it does not run sooner',
      access: 'read',
      params: jobPath,
      responses: {
        200: {
          description: 'The job',
          schema: z.strictObject({
            job: jobOut,
            attempts: z.array(attemptOut),
            requests: z.array(requestOut),
            deliveries: z.array(deliveryOut),
            whyNotSooner: waitOut.nullable().meta({ description: 'null unless pending' }),
          }),
        },
        404: { description: 'No such job' },
      },
      handle: async ({ params }) => {
        const job = await findFetchJob(database, params.id);
        if (!job) throw new Problem('notFound', `There is no job ${params.id}.`);
        const [attempts, requests, deliveries, wait] = await Promise.all([
          listAttempts(database, job.id, SHOWN),
          listRequests(database, job.id, SHOWN),
          listEventsOfActivity(database, job.activityId, SHOWN),
          findJobWait(database, job.id),
        ]);
        return { status: 200, body: { job, attempts, requests, deliveries, whyNotSooner: wait ?? null } };
      },
    }),
  ];
}
