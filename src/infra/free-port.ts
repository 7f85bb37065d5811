import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';

/**
 * Finds a TCP port on which nothing listens at the moment.
 * @param wanted is used if it is free, otherwise any other
 */
export async function findFreePort(wanted = 0, host?: string): Promise<number> {
  const probe = createServer();
  try {
    probe.listen(wanted, host);
    await once(probe, 'listening');
    return (probe.address() as AddressInfo).port;
  } catch (error) {
    if (wanted === 0) throw error;
    return findFreePort(0, host);
  } finally {
    await new Promise((resolve) => probe.close(resolve));
  }
}
