import { lookup as systemLookup } from 'node:dns/promises';
import type { LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';

/** An address that the service must not call; the message says why. */
export class ForbiddenAddressError extends Error {
  override name = 'ForbiddenAddressError';
  readonly code = 'FORBIDDEN_ADDRESS';
}

/** Finds all addresses of a name. */
export type Resolve = (hostname: string) => Promise<{ address: string; family: number }[]>;

const resolveBySystem: Resolve = (hostname) => systemLookup(hostname, { all: true });

/** Decides which addresses of the application may be called. */
export interface OutboundGuard {
  /**
   * Checks an address before anything is stored or sent; names are resolved.
   * @throws ForbiddenAddressError
   */
  check(url: string): Promise<void>;
  /**
   * Checks what needs no name server: scheme, user, and a host that is an address itself.
   * @throws ForbiddenAddressError
   */
  checkForm(url: string): URL;
  /** The lookup for sockets: resolves a name, and refuses it when any of its addresses is forbidden. */
  lookup: LookupFunction;
}

/**
 * @param options.allowPrivate true allows every address, and http
 * @param options.resolve the system's resolver by default
 */
export function createOutboundGuard(options: { allowPrivate: boolean; resolve?: Resolve }): OutboundGuard {
  const { allowPrivate, resolve = resolveBySystem } = options;

  const resolveAllowed: Resolve = async (hostname) => {
    const addresses = await resolve(hostname);
    for (const { address } of addresses) {
      if (!allowPrivate && !isPublic(address))
        throw new ForbiddenAddressError(`${hostname} resolves to ${address}, which is not a public address`);
    }
    return addresses;
  };

  const checkForm = (url: string): URL => {
    const parsed = URL.parse(url);
    if (!parsed || !/^https?:$/.test(parsed.protocol)) throw new ForbiddenAddressError('must be an https address');
    if (parsed.protocol !== 'https:' && !allowPrivate) throw new ForbiddenAddressError('must begin with https://');
    if (parsed.username !== '' || parsed.password !== '')
      throw new ForbiddenAddressError('must not contain a user or password');
    const host = hostOf(parsed);
    if (!allowPrivate && ipaddr.isValid(host) && !isPublic(host))
      throw new ForbiddenAddressError(`${host} is not a public address`);
    return parsed;
  };

  return {
    checkForm,
    check: async (url) => {
      const host = hostOf(checkForm(url));
      if (ipaddr.isValid(host)) return;
      try {
        await resolveAllowed(host);
      } catch (error) {
        if (error instanceof ForbiddenAddressError) throw error;
        throw new ForbiddenAddressError(`${host} cannot be resolved`, { cause: error });
      }
    },
    lookup: (hostname, { all }, callback) => {
      resolveAllowed(hostname).then(
        (addresses) => {
          const [first] = addresses;
          if (all) callback(null, addresses);
          else callback(null, first?.address ?? '', first?.family);
        },
        (error: NodeJS.ErrnoException) => callback(error, ''),
      );
    },
  };
}

// Excluded: private, loopback, link-local, carrier-grade NAT, multicast, reserved, and all ranges that embed another
// address.
function isPublic(address: string): boolean {
  return ipaddr.process(address).range() === 'unicast';
}

function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, '');
}
