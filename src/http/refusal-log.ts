import type { Logger } from '../infra/logger.ts';
import { Problem } from './problem.ts';

const QUIET_MS = 60_000;

/**
 * Logs a warning for a refused delivery, with the reason; at most once a minute, since anyone can send them. The next
 * line says how many there were since. Of the body it names only known fields.
 */
export function createRefusalLog({ logger, now }: { logger: Logger; now: () => number }): (error: unknown) => void {
  let quietUntil = Number.NEGATIVE_INFINITY;
  let refused = 0;
  return (error) => {
    refused += 1;
    if (now() < quietUntil) return;
    logger.warn('webhook refused', { component: 'webhook', why: describeRefusal(error), refused });
    quietUntil = now() + QUIET_MS;
    refused = 0;
  };
}

function describeRefusal(error: unknown): string {
  if (!(error instanceof Problem)) return 'its body is too large, incomplete or cannot be decompressed';
  if (error.code === 'forbidden') return error.message;
  const { title, errors = [] } = error.toJSON();
  // The sender chooses the names further down.
  const fields = new Set(errors.map(({ field }) => field.split('.').slice(0, 2).join('.')));
  return fields.size === 0 ? title : `${title}: ${[...fields].join(', ')}`;
}
