import type { Problem, ProblemCode } from '../problem.ts';
import { escapeHtml, renderPage } from './page.ts';

// In the athlete's words: they know neither state nor code.
const ADVICE: Partial<Record<ProblemCode, string>> = {
  badRequest:
    'This address works once, for ten minutes, and only in the browser that this service sent to the provider. Please',
  badGateway:
    'The provider did not accept this answer; it accepts each one only once. If this page said earlier that you are connected, you still are. Otherwise please',
  tooManyRequests: 'There were too many attempts from your network. Wait a minute, then',
};

/**
 * The page for an athlete who came back from the provider and could not be connected.
 * @param link the connect link of the application that sent them, to start again
 */
export function renderNotConnectedPage(problem: Problem, link: string | undefined): string {
  const advice = ADVICE[problem.code] ?? 'Something went wrong on our side. Wait a few minutes, then';
  const again = `/api/provider/connect${link === undefined ? '' : `?link=${link}`}`;
  return renderPage(
    'Not connected',
    `<p>${advice} <a href="${escapeHtml(again)}">reconnect</a>.</p>\n<p class="faint">${escapeHtml(problem.message)}</p>`,
  );
}
