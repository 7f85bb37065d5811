import type { Request } from 'express';
import type { Logger } from '../infra/logger.ts';
import { createAddressTally } from './address-tally.ts';

const WINDOW_MS = 60_000;
const REFUSALS = 20;

/** Counts the deliveries of each address that were refused with 403. */
export interface AddressCount {
  /** Counts one. @returns whether its address has used up this minute's 20: it gets 429 in place of 403 */
  isOver(request: Request): boolean;
}

/** Counts restart each minute; an address over the limit is logged once a minute. @param deps.now milliseconds */
export function createAddressCount(deps: { logger: Logger; now: () => number }): AddressCount {
  const tally = createAddressTally();
  let minute = Number.NaN;
  return {
    isOver: (request) => {
      const running = Math.floor(deps.now() / WINDOW_MS);
      if (running !== minute) tally.take();
      minute = running;
      const { address, count: refused } = tally.add(request);
      if (refused === REFUSALS + 1) deps.logger.warn('refused deliveries limited', { component: 'webhook', address });
      return refused > REFUSALS;
    },
  };
}
