import type { Request } from 'express';
import type { Clock } from '../domain/clock.ts';
import type { Logger } from '../infra/logger.ts';
import { createAddressTally } from './address-tally.ts';
import type { Audit } from './audit.ts';
import { Problem } from './problem.ts';

const WINDOW_MS = 60_000;
const TRIES = 10;

/** Wrong tokens, in a header or in a sign-in: counted by address, logged and written to the audit. */
export interface RefusedTries {
  /** Counts one. @throws Problem 429 from the eleventh of an address within a minute on */
  note(request: Request): void;
  /** Logs what has been counted. */
  stop(): Promise<void>;
}

/**
 * At most ten wrong tokens a minute from one address. A right token is never counted or delayed: a client that shares an
 * address with an attacker is not locked out.
 */
export function createRefusedTries(deps: { audit: Audit; clock: Clock; logger: Logger }): RefusedTries {
  const tally = createAddressTally();
  let timer: unknown;
  let stopped = false;
  let writing: Promise<void> = Promise.resolve();

  const report = (): void => {
    const counts = tally.take();
    const [first] = [...counts].sort(([, a], [, b]) => b - a);
    if (!first) return;
    const [address, most] = first;
    const count = [...counts.values()].reduce((sum, each) => sum + each, 0);
    // Several addresses share the line: one of the many cannot fill the log.
    const others = counts.size > 1 ? { countOfAddress: most, addresses: counts.size } : {};
    timer = undefined;
    deps.logger.warn('authentication failed', { component: 'auth', address, count, ...others });
    writing = deps.audit.authenticationFailed({ address, count, ...others });
  };

  return {
    note: (request) => {
      const { count } = tally.add(request);
      if (!stopped) timer ??= deps.clock.setTimeout(report, WINDOW_MS);
      if (count > TRIES)
        throw new Problem('tooManyRequests', 'Too many wrong tokens from this address. Wait a minute.', {
          headers: { 'Retry-After': String(WINDOW_MS / 1000) },
        });
    },
    stop: async () => {
      stopped = true;
      deps.clock.clearTimeout(timer);
      report();
      await writing;
    },
  };
}
