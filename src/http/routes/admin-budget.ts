import type { Budget } from '../../queue/budget.ts';
import type { WaitCause } from '../../store/job-waits.ts';
import { budgetOut, toBudgetBody } from '../budget-body.ts';
import { defineRoute, type Route } from '../route.ts';

/** The provider's budget as it is now. */
export function adminBudgetRoutes(deps: {
  budget: Budget;
  readWaits: () => Promise<Record<WaitCause, number>>;
}): Route[] {
  return [
    defineRoute({
      method: 'get',
      path: '/api/admin/budget',
      summary: 'The provider’s budget: window, used, left, and which jobs wait for it',
      access: 'read',
      responses: { 200: { description: 'The budget', schema: budgetOut } },
      handle: async () => {
        const [budget, waiting] = await Promise.all([deps.budget.read(), deps.readWaits()]);
        return { status: 200, body: toBudgetBody(budget, waiting) };
      },
    }),
  ];
}
