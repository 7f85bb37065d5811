import { z } from 'zod';
import { toInt64 } from '../../domain/int64.ts';
import type { Database } from '../../infra/database.ts';
import { findById, findByName, readAthleteNames } from '../../store/search.ts';
import { defineRoute, int64Out, type Route } from '../route.ts';

const MOST_IDS = 200;

const foundOut = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('job'), id: int64Out, activityId: int64Out, athleteId: int64Out }),
  z.strictObject({ kind: z.literal('activity'), id: int64Out, athleteId: int64Out, name: z.string() }),
  z.strictObject({ kind: z.literal('athlete'), id: int64Out, name: z.string().nullable() }),
]);

const NO_IDS = `must be 1 to ${MOST_IDS} ids, separated by commas`;
const idList = z
  .string()
  .transform((value, context) => {
    const ids = value.split(',').map(toInt64);
    if (ids.length <= MOST_IDS && !ids.includes(undefined)) return ids.filter((id) => id !== undefined);
    context.issues.push({ code: 'custom', input: value, message: NO_IDS });
    return z.NEVER;
  })
  .meta({ type: 'string', description: `Up to ${MOST_IDS} ids, separated by commas` });

/** Finding jobs, activities and athletes by id or name. */
export function adminSearchRoutes({ database }: { database: Database }): Route[] {
  return [
    defineRoute({
      method: 'get',
      path: '/api/admin/search',
      summary: 'Find jobs, activities and athletes by id or name; of activities the names of the newest 5,000',
      access: 'read',
      query: z.strictObject({ q: z.string().trim().min(1, 'must not be empty').max(100) }),
      responses: {
        200: {
          description: 'What has this id, then at most ten of each kind whose name contains the text',
          schema: z.strictObject({ found: z.array(foundOut) }),
        },
      },
      handle: async ({ query: { q } }) => {
        const id = toInt64(q);
        const [byId, byName] = await Promise.all([id ? findById(database, id) : [], findByName(database, q)]);
        return { status: 200, body: { found: [...byId, ...byName] } };
      },
    }),
    defineRoute({
      method: 'get',
      path: '/api/admin/athlete-names',
      summary: 'The names of connected athletes',
      access: 'read',
      query: z.strictObject({ ids: idList }),
      responses: {
        200: {
          description: 'Names by id; without those who have none',
          schema: z.strictObject({ names: z.record(z.string(), z.string()) }),
        },
      },
      handle: async ({ query: { ids } }) => ({
        status: 200,
        body: { names: await readAthleteNames(database, ids) },
      }),
    }),
  ];
}
