import { z } from 'zod';
import type { Database } from '../../infra/database.ts';
import { listAuditEntries } from '../../store/audit.ts';
import { cutPage, nextCursorOut, pageLimit, timeOut } from '../query-fields.ts';
import { defineRoute, int64, int64Out, type Route } from '../route.ts';

const entryOut = z.strictObject({
  id: int64Out,
  at: timeOut,
  who: z.enum(['admin', 'read', 'session', 'application', 'nobody']).meta({
    description:
      'The operator’s token, a browser session, an application (detail.token names its token), or "nobody" for a minute’s wrong tokens',
  }),
  action: z.string(),
  target: z.string().nullable(),
  detail: z.record(z.string(), z.unknown()),
  status: z.int().nullable().meta({ description: 'Status of the answer; null when the change did not finish' }),
});

/** Who changed what. */
export function adminAuditRoutes(deps: { database: Database }): Route[] {
  return [
    defineRoute({
      method: 'get',
      path: '/api/admin/audit',
      summary: 'Changes made by operators and applications, newest first',
      access: 'read',
      query: z.strictObject({ limit: pageLimit, cursor: int64.optional() }),
      responses: {
        200: {
          description: 'A page of the audit',
          schema: z.strictObject({ entries: z.array(entryOut), nextCursor: nextCursorOut }),
        },
      },
      handle: async ({ query: { limit, cursor } }) => {
        const rows = await listAuditEntries(deps.database, { beforeId: cursor, limit: limit + 1 });
        const { page, nextCursor } = cutPage(rows, limit, ({ id }) => id);
        return { status: 200, body: { entries: page, nextCursor } };
      },
    }),
  ];
}
