import type { Problem, ProblemCode } from '../problem.ts';
import { escapeHtml, renderPage } from './page.ts';

const AGAIN = '<a href="/api/provider/connect">reconnect</a>';

// In the athlete's words: they know neither state nor code.
const ADVICE: Partial<Record<ProblemCode, string>> = {
  badRequest: `This address works once, for ten minutes, and only in the browser that this service sent to the provider. Please ${AGAIN}.`,
  badGateway: `The provider did not accept this answer; it accepts each one only once. If this page said earlier that you are connected, you still are. Otherwise please ${AGAIN}.`,
  tooManyRequests: `There were too many attempts from your network. Wait a minute, then ${AGAIN}.`,
};

/** The page for an athlete who came back from the provider and could not be connected. */
export function renderNotConnectedPage(problem: Problem): string {
  const advice = ADVICE[problem.code] ?? `Something went wrong on our side. Wait a few minutes, then ${AGAIN}.`;
  return renderPage('Not connected', `<p>${advice}</p>\n<p class="faint">${escapeHtml(problem.message)}</p>`);
}
