import type { Logger } from '../infra/logger.ts';
import { createMinuteReport } from '../infra/minute-report.ts';
import { Problem } from './problem.ts';

/**
 * Logs a warning for a refused delivery, with the reason; at most once a minute, since anyone can send them. The next
 * line says how many there were since. Of the body it names only known fields.
 */
export function createRefusalLog({ logger, now }: { logger: Logger; now: () => number }): (error: unknown) => void {
  return createMinuteReport(now, (error, refused) =>
    logger.warn('webhook refused', { component: 'webhook', why: describeRefusal(error), refused }),
  );
}

/** Warns in the same way that deliveries are answered 503, with the reason. */
export function createUnavailableLog(deps: { logger: Logger; now: () => number }): (error: unknown) => void {
  return createMinuteReport(deps.now, (error, unavailable) =>
    deps.logger.warn('webhook not stored; the provider delivers it again', {
      component: 'webhook',
      why: (error as Error).message,
      unavailable,
    }),
  );
}

function describeRefusal(error: unknown): string {
  if (!(error instanceof Problem)) return 'its body is too large, incomplete or cannot be decompressed';
  if (error.code === 'forbidden') return error.message;
  const { title, errors = [] } = error.toJSON();
  // The sender chooses the names further down.
  const fields = new Set(errors.map(({ field }) => field.split('.').slice(0, 2).join('.')));
  return fields.size === 0 ? title : `${title}: ${[...fields].join(', ')}`;
}
