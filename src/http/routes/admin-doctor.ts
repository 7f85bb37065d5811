import { z } from 'zod';
import type { Doctor } from '../../flows/standing-doctor.ts';
import { defineRoute, type Route } from '../route.ts';

const finding = z.object({
  check: z.string(),
  ok: z.boolean(),
  detail: z.string(),
  nextStep: z.string().nullable().meta({ description: 'What to do; a warning where the finding is ok' }),
});

/** Checks whether webhooks can arrive, and says what to do about each fault. */
export function adminDoctorRoutes(deps: { doctor: Doctor }): Route[] {
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
      handle: async () => {
        const { ok, findings } = await deps.doctor.examine();
        return { status: 200, body: { ok, findings } };
      },
    }),
  ];
}
