import { z } from 'zod';
import type { Subscriptions } from '../../flows/manage-subscriptions.ts';
import { ProviderError } from '../../provider/errors.ts';
import { Problem } from '../problem.ts';
import { createProviderRead } from '../provider-read.ts';
import { defineRoute, int64, int64Out, type Route } from '../route.ts';

const subscriptionOut = z.object({
  id: int64Out,
  callbackUrl: z.string(),
  createdAt: z.string().nullable(),
  updatedAt: z.string().nullable(),
});

const REFUSED = { description: 'The provider refused, in its own words, or could not be reached' };

/** Webhook subscriptions at the provider. */
export function adminWebhookRoutes(deps: {
  subscriptions: Subscriptions;
  callbackUrl: string;
  verifyToken: string;
}): Route[] {
  const list = createProviderRead(() => asked(deps.subscriptions.list()));
  return [
    defineRoute({
      method: 'post',
      path: '/api/admin/webhooks',
      summary: 'Create the subscription; the provider validates the callback during the call',
      access: 'admin',
      body: z.strictObject({
        callbackUrl: z
          .url({ protocol: /^https?$/, error: 'must be an http or https address' })
          .max(2000)
          .optional(),
        verifyToken: z.string().min(1).max(500).optional(),
      }),
      bodyOptional: true,
      responses: {
        201: { description: 'Created', schema: z.object({ id: int64Out, callbackUrl: z.string() }) },
        400: { description: 'A verifyToken that this service would refuse' },
        502: REFUSED,
      },
      handle: async ({ body: { callbackUrl = deps.callbackUrl, verifyToken = deps.verifyToken } }) => {
        if (callbackUrl === deps.callbackUrl && verifyToken !== deps.verifyToken)
          throw new Problem('badRequest', 'This verifyToken cannot succeed.', {
            errors: [
              { field: 'body.verifyToken', message: 'is not PROVIDER_VERIFY_TOKEN, which the callback requires' },
            ],
          });
        return { status: 201, body: await asked(deps.subscriptions.create(callbackUrl, verifyToken)) };
      },
    }),
    defineRoute({
      method: 'get',
      path: '/api/admin/webhooks',
      summary: 'List the subscriptions',
      access: 'read',
      responses: {
        200: { description: 'The subscriptions', schema: z.object({ subscriptions: z.array(subscriptionOut) }) },
        502: REFUSED,
      },
      handle: async ({ response }) => ({ status: 200, body: { subscriptions: await list(response) } }),
    }),
    defineRoute({
      method: 'delete',
      path: '/api/admin/webhooks',
      summary: 'Delete one subscription, or all of them',
      access: 'admin',
      query: z.strictObject({ id: int64.optional() }),
      responses: {
        200: { description: 'How many were deleted', schema: z.object({ deleted: z.int() }) },
        404: { description: 'The provider knows no such subscription' },
        502: REFUSED,
      },
      handle: async ({ query }) => {
        if (query.id !== undefined) {
          if (!(await asked(deps.subscriptions.delete(query.id))))
            throw new Problem('notFound', `The provider knows no subscription ${query.id}.`);
          return { status: 200, body: { deleted: 1 } };
        }
        let deleted = 0;
        for (const { id } of await asked(deps.subscriptions.list()))
          if (await asked(deps.subscriptions.delete(id))) deleted += 1;
        return { status: 200, body: { deleted } };
      },
    }),
  ];
}

// The provider's refusal is passed on in its own words; it never contains what we sent.
async function asked<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof ProviderError)
      throw new Problem(
        'badGateway',
        error.providerMessage ? `The provider refused: ${error.providerMessage}` : error.message,
      );
    throw error;
  }
}
