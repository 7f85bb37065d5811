import { z } from 'zod';
import type { ConnectAthlete } from '../../flows/connect-athlete.ts';
import { externalIdIn } from '../application-body.ts';
import { Problem } from '../problem.ts';
import { timeOut } from '../query-fields.ts';
import { defineRoute, type Route } from '../route.ts';

/** Links through which an application's users connect. */
export function v1ConnectLinkRoutes(deps: {
  connectAthlete: ConnectAthlete;
  baseUrl: string;
  returnOrigins: readonly string[];
}): Route[] {
  const checkOrigin = (returnUrl: string): void => {
    if (deps.returnOrigins.includes(new URL(returnUrl).origin)) return;
    const message =
      deps.returnOrigins.length === 0
        ? 'cannot be used: RETURN_ORIGINS is empty'
        : `must begin with an origin listed in RETURN_ORIGINS: ${deps.returnOrigins.join(', ')}`;
    throw new Problem('badRequest', `The returnUrl ${message}.`, { errors: [{ field: 'body.returnUrl', message }] });
  };
  return [
    defineRoute({
      method: 'post',
      path: '/api/v1/connect-links',
      summary:
        'An address to send one user to, who connects there and comes back to returnUrl with status and athleteId',
      access: 'write',
      body: z.strictObject({
        externalId: externalIdIn.meta({ description: 'The application’s own id for the user; kept with the athlete' }),
        returnUrl: z
          .url({ protocol: /^https?$/ })
          .max(1000)
          .meta({ description: 'Its origin must be in RETURN_ORIGINS' }),
      }),
      responses: {
        201: {
          description: 'Send only that user there',
          schema: z.strictObject({ url: z.string(), expiresAt: timeOut }),
        },
      },
      handle: ({ body }) => {
        checkOrigin(body.returnUrl);
        const { link, expiresAt } = deps.connectAthlete.createLink(body);
        return { status: 201, body: { url: `${deps.baseUrl}/api/provider/connect?link=${link}`, expiresAt } };
      },
    }),
  ];
}
