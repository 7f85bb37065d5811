import { z } from 'zod';
import type { Database } from '../../infra/database.ts';
import { listApiTokens, revokeApiToken, saveApiToken, TOKEN_SCOPES } from '../../store/api-tokens.ts';
import { digestOf, makeApiToken } from '../api-auth.ts';
import { Problem } from '../problem.ts';
import { timeOut } from '../query-fields.ts';
import { defineRoute, int64, int64Out, type Route } from '../route.ts';

const scope = z.enum(TOKEN_SCOPES).meta({ description: 'write includes read' });
const tokenOut = z.strictObject({
  id: int64Out,
  name: z.string(),
  scope,
  createdAt: timeOut,
  lastUsedAt: timeOut.nullable(),
  revokedAt: timeOut.nullable(),
});
const MAX_NAME = 100;

/** Tokens of the applications that use /api/v1. */
export function adminApiTokenRoutes(deps: { database: Database }): Route[] {
  const { database } = deps;
  return [
    defineRoute({
      method: 'get',
      path: '/api/admin/api-tokens',
      summary: 'Tokens of applications, including revoked ones, oldest first',
      access: 'read',
      responses: { 200: { description: 'All tokens', schema: z.strictObject({ tokens: z.array(tokenOut) }) } },
      handle: async () => ({ status: 200, body: { tokens: await listApiTokens(database) } }),
    }),
    defineRoute({
      method: 'post',
      path: '/api/admin/api-tokens',
      summary: 'Create a token for an application; it is shown only once',
      access: 'admin',
      body: z.strictObject({ name: z.string().trim().min(1).max(MAX_NAME), scope }),
      responses: {
        201: {
          description: 'Created',
          schema: z.strictObject({ ...tokenOut.shape, token: z.string() }),
        },
      },
      handle: async ({ body }) => {
        const token = makeApiToken();
        const row = await saveApiToken(database, { ...body, digest: digestOf(token) });
        return { status: 201, body: { ...row, token }, audit: { target: row.id } };
      },
    }),
    defineRoute({
      method: 'delete',
      path: '/api/admin/api-tokens/:id',
      summary: 'Revoke a token; its next request is refused',
      access: 'admin',
      params: z.object({ id: int64 }),
      responses: {
        200: { description: 'Revoked', schema: z.strictObject({ revoked: z.literal(true) }) },
        404: { description: 'No such token' },
      },
      handle: async ({ params }) => {
        if (!(await revokeApiToken(database, params.id)))
          throw new Problem('notFound', `There is no token ${params.id}, or it was revoked before.`);
        return { status: 200, body: { revoked: true } };
      },
    }),
  ];
}
