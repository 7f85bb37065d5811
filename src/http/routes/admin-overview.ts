import { z } from 'zod';
import { readLastHours, readSum } from '../../flows/read-history.ts';
import type { Doctor } from '../../flows/standing-doctor.ts';
import type { Database } from '../../infra/database.ts';
import { createPacedRead } from '../../infra/paced-read.ts';
import type { Budget } from '../../queue/budget.ts';
import { countAthletes } from '../../store/athlete-list.ts';
import { listPauses } from '../../store/fetch-pauses.ts';
import { readRecentFetches } from '../../store/history.ts';
import type { JobCounts } from '../../store/job-counts.ts';
import { sumWaits, type Waits } from '../../store/job-waits.ts';
import { readSweepTimes } from '../../store/polling-sweeps.ts';
import { listKnownSubscriptions } from '../../store/subscriptions.ts';
import { findLastReceived } from '../../store/webhook-events.ts';
import { budgetOut, toBudgetBody } from '../budget-body.ts';
import { statsOut, withTotal } from '../job-body.ts';
import { timeOut, wholeNumber } from '../query-fields.ts';
import { defineRoute, type Route } from '../route.ts';
import { pauseOut } from './admin-fetching.ts';

const spreadOut = z.strictObject({ count: z.int(), p50S: z.number().nullable(), p95S: z.number().nullable() });
const sumOut = {
  finished: z.record(z.string(), z.int()).meta({ description: 'Runs by result' }),
  drift: z
    .record(z.string(), z.int())
    .meta({ description: 'What polling found that webhooks should have brought: missed, changed, vanished' }),
  wait: z
    .strictObject({ webhook: spreadOut, manual: spreadOut, polling: spreadOut })
    .meta({ description: 'Seconds from due to claimed' }),
  stored: spreadOut.meta({ description: 'Seconds from an accepted webhook event to its stored activity' }),
};
const reasons = z.strictObject({ webhook: z.number(), manual: z.number(), polling: z.number() });
const overviewOut = z.strictObject({
  stats: statsOut,
  oldestDueS: reasons.meta({
    description: 'For how long a job has been due and its cooldown over: the longest by reason; 0 when none is due',
  }),
  budget: budgetOut,
  athletes: z.strictObject({ healthy: z.int(), reconnect: z.int(), scope: z.int() }),
  lastWebhookAt: timeOut.nullable(),
  polling: z.strictObject({
    startedAt: timeOut.nullable().meta({ description: 'Set while a sweep is running' }),
    finishedAt: timeOut.nullable(),
  }),
  fetches: z
    .strictObject({
      succeeded: z.int(),
      failed: z.int(),
      failingSince: timeOut.nullable().meta({ description: 'The first minute of the current run of failures' }),
    })
    .meta({ description: 'How the provider answered the runs of the last five minutes' }),
  subscriptions: z.int().meta({ description: 'Known subscriptions; without one no webhook can arrive' }),
  pauses: z.array(pauseOut).meta({ description: 'Fetching that an operator has paused' }),
  doctor: z
    .strictObject({ at: timeOut, faults: z.array(z.strictObject({ check: z.string(), detail: z.string() })) })
    .nullable()
    .meta({ description: 'What the doctor last found, at most ten minutes ago; null until it has answered' }),
  lastHour: z.strictObject(sumOut),
  lastDay: z.strictObject(sumOut),
});
const MAX_HOURS = 168;
const DEFAULT_HOURS = 3;

/** What an operator on call looks at first. */
export function adminOverviewRoutes(deps: {
  database: Database;
  budget: Budget;
  readCounts: () => Promise<JobCounts>;
  readWaits: () => Promise<Waits>;
  doctor: Doctor;
}): Route[] {
  const { database } = deps;
  // All open consoles share one read of the history.
  const readLastHour = createPacedRead(() => readSum(database, 1));
  const readLastDay = createPacedRead(() => readSum(database, 24));
  const readHistory = Array.from({ length: MAX_HOURS + 1 }, (_, hours) =>
    createPacedRead(() => readLastHours(database, hours)),
  );
  return [
    defineRoute({
      method: 'get',
      path: '/api/admin/overview',
      summary: 'Status of the service: queue, budget, athletes, webhooks, polling, the last hour and day',
      access: 'read',
      responses: { 200: { description: 'The overview', schema: overviewOut } },
      handle: async () => {
        const [counts, waits, budget, athletes, lastWebhookAt, polling, fetches, known, pauses, lastHour, lastDay] =
          await Promise.all([
            deps.readCounts(),
            deps.readWaits(),
            deps.budget.read(),
            countAthletes(database),
            findLastReceived(database),
            readSweepTimes(database),
            readRecentFetches(database),
            listKnownSubscriptions(database),
            listPauses(database),
            readLastHour(),
            readLastDay(),
          ]);
        const examined = await deps.doctor.latest(known);
        const { webhook, manual, polling: sweeping } = waits;
        return {
          status: 200,
          body: {
            stats: withTotal(counts),
            oldestDueS: { webhook: webhook.oldestDueS, manual: manual.oldestDueS, polling: sweeping.oldestDueS },
            budget: toBudgetBody(budget, sumWaits(waits)),
            athletes,
            lastWebhookAt,
            polling,
            fetches,
            subscriptions: known.length,
            pauses,
            doctor: examined
              ? {
                  at: examined.at,
                  faults: examined.findings.flatMap(({ ok, check, detail }) => (ok ? [] : { check, detail })),
                }
              : null,
            lastHour,
            lastDay,
          },
        };
      },
    }),
    defineRoute({
      method: 'get',
      path: '/api/admin/history',
      summary: 'The last hours in equal steps, oldest first, for charts',
      access: 'read',
      query: z.strictObject({ hours: wholeNumber(MAX_HOURS, 'How far back; 3 by default').optional() }),
      responses: {
        200: {
          description: 'One point for each step',
          schema: z.strictObject({ stepS: z.int(), points: z.array(z.strictObject({ at: timeOut, ...sumOut })) }),
        },
      },
      handle: async ({ query: { hours = DEFAULT_HOURS } }) => ({ status: 200, body: await readHistory[hours]?.() }),
    }),
  ];
}
