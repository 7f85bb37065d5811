import { z } from 'zod';
import type { Doctor } from '../../flows/standing-doctor.ts';
import { createProviderRead } from '../provider-read.ts';
import { defineRoute, type Route } from '../route.ts';

const finding = z.object({
  check: z.string(),
  ok: z.boolean(),
  detail: z.string(),
  nextStep: z.string().nullable().meta({ description: 'What to do; a warning where the finding is ok' }),
});

/** Checks whether webhooks can arrive, and says what to do about each fault. */
export function adminDoctorRoutes(deps: { doctor: Doctor }): Route[] {
  const examine = createProviderRead(() => deps.doctor.examine());
  return [
    defineRoute({
      method: 'get',
      path: '/api/admin/webhooks/doctor',
      summary: 'Check the webhook subscription: whether events can arrive, and how to fix what is wrong',
      access: 'read',
      responses: {
        200: {
          description: 'What was found; `ok` when nothing needs doing',
          schema: z.object({ ok: z.boolean(), findings: z.array(finding) }),
        },
      },
      handle: async ({ response }) => {
        const { ok, findings } = await examine(response);
        return { status: 200, body: { ok, findings } };
      },
    }),
  ];
}
