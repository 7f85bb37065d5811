import type { EventStream } from '../event-stream.ts';
import { Problem } from '../problem.ts';
import { defineRoute, type Route } from '../route.ts';

/** What happens, as it happens. */
export function adminEventRoutes(deps: { stream: EventStream }): Route[] {
  return [
    defineRoute({
      method: 'get',
      path: '/api/admin/events',
      summary:
        'Server-sent events: jobs (statistics), budget, activity (ids; null: any), athlete, webhook, sync; and beat every two seconds while the figures can be read. At most four rounds a second; each new connection starts with all of them',
      access: 'read',
      responses: {
        200: { description: 'A stream without an end', contentType: 'text/event-stream' },
        503: { description: 'Too many viewers in this process, or for this token or session' },
      },
      handle: ({ request, response }) => {
        response.locals.isStream = true;
        if (request.method === 'HEAD') response.type('text/event-stream').end();
        else if (!deps.stream.add(response, String(response.locals.credential)))
          throw new Problem(
            'unavailable',
            'Too many viewers are connected to this process, or with this token or session. Close some, or try again shortly.',
            {
              headers: { 'Retry-After': '10' },
            },
          );
        return undefined;
      },
    }),
  ];
}
