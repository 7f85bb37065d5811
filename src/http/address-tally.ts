import type { Request } from 'express';
import { ipKeyGenerator } from 'express-rate-limit';

const MAX_ADDRESSES = 10_000;

/** Counts requests by the address they come from; behind proxies TRUSTED_PROXIES tells which that is. */
export interface AddressTally {
  /** Counts one. @returns how many there are now of its address */
  add(request: Request): { address: string; count: number };
  /** Starts again at zero. @returns what was counted */
  take(): ReadonlyMap<string, number>;
}

/** A network of IPv6 counts as one address; beyond 10,000 addresses the rest share one count. */
export function createAddressTally(): AddressTally {
  let counts = new Map<string, number>();
  return {
    add: (request) => {
      const own = ipKeyGenerator(request.ip ?? 'unknown');
      const address = counts.has(own) || counts.size < MAX_ADDRESSES ? own : 'others';
      const count = (counts.get(address) ?? 0) + 1;
      counts.set(address, count);
      return { address, count };
    },
    take: () => {
      const taken = counts;
      counts = new Map();
      return taken;
    },
  };
}
