import type { PgBoss } from 'pg-boss';
import { z } from 'zod';

import { STATUSES } from '../../domain/job.ts';
import { deleteJob, deleteJobs } from '../../flows/delete-jobs.ts';
import { forceJobs } from '../../flows/force-jobs.ts';
import { retryJob, retryJobs } from '../../flows/retry-jobs.ts';
import type { Database } from '../../infra/database.ts';
import { findFetchJob, findFetchJobOfActivity } from '../../store/fetch-jobs.ts';
import type { JobFilter } from '../../store/job-pages.ts';
import type { AuditNote } from '../audit.ts';
import { jobFilterFields, jobOut, jobPath } from '../job-body.ts';
import { Problem } from '../problem.ts';
import { wholeNumber } from '../query-fields.ts';
import { defineRoute, type Route } from '../route.ts';

const HOUR_MS = 3_600_000;
const MAX_HOURS = 1_000_000;

/** Fetch jobs: retrying and deleting. */
export function adminJobChangeRoutes(deps: {
  database: Database;
  boss: PgBoss;
  /** Aborted when the service stops: a long change ends between two batches. */
  stopping: AbortSignal;
}): Route[] {
  const { database, stopping } = deps;

  const noteOf = async (filter: JobFilter, done: object): Promise<AuditNote> => {
    const job = filter.activityId === undefined ? undefined : await findFetchJobOfActivity(database, filter.activityId);
    return { athleteId: filter.athleteId ?? job?.athleteId, detail: { ...done } };
  };
  const mustHaveEnded = (what: string) => {
    if (stopping.aborted)
      throw new Problem('unavailable', `The service stopped before all jobs were ${what}. Send the request again.`, {
        headers: { 'Retry-After': '5' },
      });
  };

  return [
    defineRoute({
      method: 'delete',
      path: '/api/admin/activity-jobs',
      summary: 'Delete all jobs that match; a deleted working job’s result is not saved',
      access: 'admin',
      query: z.strictObject({
        status: z.enum(STATUSES),
        olderThan: wholeNumber(MAX_HOURS, 'Only jobs last updated more than this many hours ago').optional(),
        ...jobFilterFields,
      }),
      responses: { 200: { description: 'How many', schema: z.strictObject({ deleted: z.int() }) } },
      handle: async ({ query: { olderThan, ...filter } }) => {
        const olderThanMs = olderThan === undefined ? undefined : olderThan * HOUR_MS;
        const note = await noteOf(filter, {});
        const deleted = await deleteJobs(deps, { ...filter, olderThanMs }, { signal: stopping });
        mustHaveEnded('deleted');
        return { status: 200, body: { deleted }, audit: { ...note, detail: { deleted } } };
      },
    }),
    defineRoute({
      method: 'post',
      path: '/api/admin/activity-jobs/retry',
      summary: 'Retry all finished jobs that match',
      access: 'admin',
      query: z.strictObject({
        status: z.enum(['failed', 'done'], { error: 'must be failed or done: other jobs run without a retry' }),
        ...jobFilterFields,
      }),
      responses: { 200: { description: 'How many', schema: z.strictObject({ retried: z.int() }) } },
      handle: async ({ query, response }) => {
        const retried = await retryJobs(deps, query, { signal: stopping, by: response.locals.who });
        mustHaveEnded('retried');
        return { status: 200, body: { retried }, audit: await noteOf(query, { retried }) };
      },
    }),
    defineRoute({
      method: 'post',
      path: '/api/admin/activity-jobs/force',
      summary: 'Fetch the activities of all jobs that match, stored or not',
      access: 'admin',
      query: z.strictObject({ status: z.enum(STATUSES), ...jobFilterFields }),
      responses: { 200: { description: 'How many', schema: z.strictObject({ forced: z.int() }) } },
      handle: async ({ query, response }) => {
        const forced = await forceJobs(deps, query, { signal: stopping, by: response.locals.who });
        mustHaveEnded('requested');
        return { status: 200, body: { forced }, audit: await noteOf(query, { forced }) };
      },
    }),
    defineRoute({
      method: 'post',
      path: '/api/admin/activity-jobs/:id/retry',
      summary: 'Retry one job; a pending one no longer waits for its backoff',
      access: 'admin',
      params: jobPath,
      responses: {
        200: { description: 'The job, pending', schema: jobOut },
        404: { description: 'No such job' },
        409: { description: 'It is already running' },
      },
      handle: async ({ params, response }) => {
        const job = await retryJob(deps, params.id, response.locals.who);
        if (!job) throw new Problem('notFound', `There is no job ${params.id}.`);
        if (job === 'working') throw new Problem('conflict', `Job ${params.id} is already running.`);
        return { status: 200, body: job, audit: { athleteId: job.athleteId } };
      },
    }),
    defineRoute({
      method: 'delete',
      path: '/api/admin/activity-jobs/:id',
      summary: 'Delete one job; if it is working, its result is not saved',
      access: 'admin',
      params: jobPath,
      responses: {
        200: { description: 'Deleted', schema: z.strictObject({ deleted: z.literal(1) }) },
        404: { description: 'No such job' },
      },
      handle: async ({ params }) => {
        const job = await findFetchJob(database, params.id);
        if (!job || !(await deleteJob(deps, params.id))) throw new Problem('notFound', `There is no job ${params.id}.`);
        return { status: 200, body: { deleted: 1 }, audit: { athleteId: job.athleteId } };
      },
    }),
  ];
}
