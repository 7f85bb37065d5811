import type { Logger } from '../infra/logger.ts';
import { createMinuteReport } from '../infra/minute-report.ts';
import { Problem } from './problem.ts';

/**
 * Warns of a delivery that was refused and says why; at most once a minute, for anybody can send them. The next
 * line tells how many there were since. Of the body it names known fields only.
 */
export function createRefusalLog({ logger, now }: { logger: Logger; now: () => number }): (error: unknown) => void {
  return createMinuteReport(now, (error, refused) =>
    logger.warn('webhook refused', { component: 'webhook', why: describeRefusal(error), refused }),
  );
}

/** Warns that deliveries are answered 503 and says why, in the same manner. */
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
  if (!(error instanceof Problem)) return 'its body is too large, broken off or unreadably compressed';
  if (error.code === 'forbidden') return error.message;
  const { title, errors = [] } = error.toJSON();
  // What stands deeper is named by the sender.
  const fields = new Set(errors.map(({ field }) => field.split('.').slice(0, 2).join('.')));
  return fields.size === 0 ? title : `${title}: ${[...fields].join(', ')}`;
}
