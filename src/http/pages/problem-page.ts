import type { Problem, ProblemCode } from '../problem.ts';
import { escapeHtml, renderPage } from './page.ts';

const TITLES: Partial<Record<ProblemCode, string>> = { notFound: 'Not found', unavailable: 'Temporarily unavailable' };

const ADVICE: Partial<Record<ProblemCode, string>> = {
  notFound: 'Go to the <a href="/">newest activities</a> or to the <a href="/admin">console</a>.',
  unavailable: 'The service keeps trying. Reload this page in a few seconds.',
};

/** What a browser shows when a page cannot be shown. */
export function renderProblemPage(problem: Problem): string {
  const title = TITLES[problem.code] ?? 'This page cannot be shown';
  return renderPage(title, `<p>${escapeHtml(problem.message)}</p>\n<p class="faint">${ADVICE[problem.code] ?? ''}</p>`);
}
