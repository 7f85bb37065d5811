import type { Logger } from '../infra/logger.ts';
import { Problem } from './problem.ts';

const QUIET_MS = 60_000;

/**
 * Warns of a delivery that was refused and says why; at most once a minute, for anybody can send them. The next
 * line tells how many there were since. Of the body it names known fields only.
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
