import type { Request } from 'express';
import { ipKeyGenerator } from 'express-rate-limit';

const MAX_ADDRESSES = 10_000;

/** Counts requests by the address they come from; behind proxies TRUSTED_PROXIES determines which that is. */
export interface AddressTally {
  /** Counts one. @returns the count of its address so far */
  add(request: Request): { address: string; count: number };
  /** Restarts at zero. @returns the counts so far */
  take(): ReadonlyMap<string, number>;
}

/** An IPv6 network counts as one address; beyond 10,000 addresses the rest share one count. */
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
