import { z } from 'zod';
import { type DoctorDependencies, examineSubscription } from '../../flows/subscription-doctor.ts';
import { defineRoute, type Route } from '../route.ts';

const finding = z.object({
  check: z.string(),
  ok: z.boolean(),
  detail: z.string(),
  nextStep: z.string().nullable(),
});

/** Looks whether webhooks can arrive, and says what to do about each fault. */
export function adminDoctorRoutes(deps: DoctorDependencies): Route[] {
  return [
    defineRoute({
      method: 'get',
      path: '/api/admin/webhooks/doctor',
      summary: 'Examine the webhook subscription: whether events can arrive, and what to do where not',
      access: 'read',
      responses: {
        200: {
          description: 'What was found; `ok` when nothing needs doing',
          schema: z.object({ ok: z.boolean(), findings: z.array(finding) }),
        },
      },
      handle: async () => ({ status: 200, body: await examineSubscription(deps) }),
    }),
  ];
}
