import type { Request, Response } from 'express';
import { z } from 'zod';
import { CHANGE_TYPES } from '../../domain/change.ts';
import { type ChangePage, CursorExpiredError, CursorUnknownError } from '../../store/changes.ts';
import { changeOut } from '../application-body.ts';
import type { ChangeFeed } from '../change-feed.ts';
import { Problem } from '../problem.ts';
import { wholeNumber } from '../query-fields.ts';
import { defineRoute, int64, type Route } from '../route.ts';

const MAX_LIMIT = 1000;
const CURSOR = /^(latest|0|[1-9][0-9]{0,17})$/;

const types = z
  .string()
  .transform((value) => value.split(','))
  .pipe(z.array(z.enum(CHANGE_TYPES)).min(1))
  .meta({ type: 'string', description: `Comma list of ${CHANGE_TYPES.join(', ')}` });
const limit = z
  .string()
  .regex(/^[1-9][0-9]{0,3}$/, `must be a whole number from 1 to ${MAX_LIMIT}`)
  .transform(Number)
  .refine((rows) => rows <= MAX_LIMIT, `must be a whole number from 1 to ${MAX_LIMIT}`)
  .default(100)
  .meta({ type: 'integer', minimum: 1, maximum: MAX_LIMIT, description: 'Changes in the answer' });

/** The feed of changes: a page, a page that is waited for, or a stream. */
export function v1ChangeRoutes(deps: { feed: ChangeFeed }): Route[] {
  const { feed } = deps;
  return [
    defineRoute({
      method: 'get',
      path: '/api/v1/changes',
      summary: 'The changes behind a cursor, in commit order; a stream with Accept: text/event-stream',
      access: 'read',
      query: z.strictObject({
        after: z.string().regex(CURSOR, 'must be a cursor of this feed, or latest').optional().meta({
          description: 'Cursor of the last change that was handled; latest: behind the newest; unset: from the oldest',
        }),
        limit,
        types: types.optional(),
        athleteId: int64.optional(),
        wait: wholeNumber(30, 'Seconds to wait for a change when there is none').default(0),
      }),
      responses: {
        200: {
          description: 'Changes, and where to continue; in a stream each is an event with its cursor as id',
          schema: z.strictObject({ changes: z.array(changeOut), nextCursor: z.string() }),
        },
        410: { description: 'The cursor has expired: read the copy in full, as the detail says' },
        503: { description: 'Too many streams, or the database is unreachable' },
      },
      handle: async ({ query: { wait, ...options }, request, response }) => {
        if (
          request.method !== 'HEAD' &&
          request.accepts(['application/json', 'text/event-stream']) === 'text/event-stream'
        ) {
          response.locals.isStream = true;
          await refuseBadCursor(() =>
            feed.stream({ ...options, after: lastEventId(request) ?? options.after }, credentialOf(response), response),
          );
          return undefined;
        }
        const page = await refuseBadCursor(() =>
          feed.read({ ...options, after: options.after }, wait * 1000, response),
        );
        return { status: 200, body: page };
      },
    }),
  ];
}

function credentialOf({ locals }: Response): string {
  return locals.apiToken === undefined ? String(locals.credential) : `token ${locals.apiToken}`;
}

function lastEventId(request: Request): string | undefined {
  const id = request.get('last-event-id');
  if (id === undefined || CURSOR.test(id)) return id;
  throw new Problem('badRequest', 'Last-Event-ID is not a cursor of this feed.', {
    errors: [{ field: 'header.Last-Event-ID', message: 'must be the id of an event of this feed' }],
  });
}

async function refuseBadCursor<T extends ChangePage | undefined>(read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof CursorExpiredError)
      throw new Problem(
        'gone',
        `${error.message} Resynchronise: take the nextCursor of GET /api/v1/changes?after=latest, read /api/v1/athletes and /api/v1/activities in full, then read the changes behind that cursor.`,
      );
    if (error instanceof CursorUnknownError)
      throw new Problem('badRequest', `The feed has no such cursor yet. ${error.message}`, {
        errors: [{ field: 'query.after', message: 'must be a cursor of this feed' }],
      });
    throw error;
  }
}
