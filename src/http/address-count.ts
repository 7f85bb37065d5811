import type { Request } from 'express';
import { ipKeyGenerator } from 'express-rate-limit';
import type { Logger } from '../infra/logger.ts';

const WINDOW_MS = 60_000;
const REFUSALS = 20;
const MAX_ADDRESSES = 10_000;

/** Counts the deliveries of each address that were refused with 403; behind proxies TRUSTED_PROXIES determines which that is. */
export interface AddressCount {
  /** Counts one. @returns whether its address has used up this minute's 20: it gets 429 in place of 403 */
  isOver(request: Request): boolean;
}

/** Counts restart each minute; an address over the limit is logged once a minute. @param deps.now milliseconds */
export function createAddressCount(deps: { logger: Logger; now: () => number }): AddressCount {
  let counts = new Map<string, number>();
  let minute = Number.NaN;
  return {
    isOver: (request) => {
      const running = Math.floor(deps.now() / WINDOW_MS);
      if (running !== minute) counts = new Map();
      minute = running;
      const own = ipKeyGenerator(request.ip ?? 'unknown');
      const address = counts.has(own) || counts.size < MAX_ADDRESSES ? own : 'others';
      const refused = (counts.get(address) ?? 0) + 1;
      counts.set(address, refused);
      if (refused === REFUSALS + 1) deps.logger.warn('refused deliveries limited', { component: 'webhook', address });
      return refused > REFUSALS;
    },
  };
}
