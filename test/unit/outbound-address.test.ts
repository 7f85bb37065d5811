import { describe, expect, it } from '@jest/globals';
import { createOutboundGuard } from '../../src/infra/outbound-address.ts';
import { createOutboundClient } from '../../src/infra/outbound-client.ts';
import { startReceiver } from '../support/receiver.ts';

const PUBLIC = [{ address: '93.184.216.34', family: 4 }];
const resolvingTo = (...addresses: string[]) =>
  createOutboundGuard({
    allowPrivate: false,
    resolve: async () => addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
  });

describe('an address that the application gives', () => {
  it.each([
    ['http', 'http://example.com/', 'https://'],
    ['another scheme', 'ftp://example.com/', 'https address'],
    ['no address', 'example', 'https address'],
    ['a user', 'https://user:password@example.com/', 'user or password'],
    ['loopback', 'https://127.0.0.1/', 'not a public address'],
    ['loopback in short', 'https://127.1/', 'not a public address'],
    ['loopback as one number', 'https://2130706433/', 'not a public address'],
    ['loopback in hexadecimal', 'https://0x7f000001/', 'not a public address'],
    ['loopback of IPv6', 'https://[::1]/', 'not a public address'],
    ['loopback mapped into IPv6', 'https://[::ffff:127.0.0.1]/', 'not a public address'],
    ['a private network', 'https://10.1.2.3/', 'not a public address'],
    ['another private network', 'https://172.16.0.1/', 'not a public address'],
    ['a home network', 'https://192.168.1.1/', 'not a public address'],
    ['a cloud’s metadata', 'https://169.254.169.254/latest/meta-data', 'not a public address'],
    ['carrier-grade NAT', 'https://100.64.0.1/', 'not a public address'],
    ['multicast', 'https://224.0.0.1/', 'not a public address'],
    ['the unspecified address', 'https://0.0.0.0/', 'not a public address'],
    ['broadcast', 'https://255.255.255.255/', 'not a public address'],
    ['a unique local address', 'https://[fd00::1]/', 'not a public address'],
    ['link-local of IPv6', 'https://[fe80::1]/', 'not a public address'],
    ['an address translated by NAT64', 'https://[64:ff9b::7f00:1]/', 'not a public address'],
  ])('is refused when it has or is %s', async (_what, url, words) => {
    await expect(resolvingTo('93.184.216.34').check(url)).rejects.toThrow(words);
  });

  it('is refused when its name resolves to a private address, even beside a public one', async () => {
    await expect(resolvingTo('93.184.216.34', '10.0.0.1').check('https://example.com/')).rejects.toThrow(
      'example.com resolves to 10.0.0.1, which is not a public address',
    );
    await expect(createOutboundGuard({ allowPrivate: false }).check('https://localhost/')).rejects.toThrow(
      'not a public address',
    );
  });

  it('is refused when its name does not resolve', async () => {
    const guard = createOutboundGuard({ allowPrivate: false, resolve: () => Promise.reject(new Error('ENOTFOUND')) });
    await expect(guard.check('https://example.com/')).rejects.toThrow('example.com cannot be resolved');
  });

  it('is accepted when it is public', async () => {
    await resolvingTo('93.184.216.34', '2606:2800:220:1:248:1893:25c8:1946').check('https://example.com:8443/hook?x=1');
    await resolvingTo().check('https://93.184.216.34/');
  });

  it('is checked again at the connection: a name that now resolves to another address is not called', async () => {
    const receiver = await startReceiver();
    const port = new URL(receiver.url).port;
    let addresses = PUBLIC;
    const guard = createOutboundGuard({ allowPrivate: false, resolve: async () => addresses });
    const client = createOutboundClient({ guard, timeoutMs: 2000, userAgent: 'test' });
    await guard.check(`https://rebound.example.com:${port}/`);
    addresses = [{ address: '127.0.0.1', family: 4 }];
    const answer = await client.post(`https://rebound.example.com:${port}/`, '{}', {}, new AbortController().signal);
    expect(answer).toMatchObject({
      status: undefined,
      error: 'rebound.example.com resolves to 127.0.0.1, which is not a public address',
    });
    expect(receiver.calls).toEqual([]);
    client.close();
    await receiver.close();
  });

  it('is given up when it does not answer in time', async () => {
    const receiver = await startReceiver();
    receiver.answer = () => undefined;
    const guard = createOutboundGuard({ allowPrivate: true });
    const client = createOutboundClient({ guard, timeoutMs: 50, userAgent: 'test' });
    const answer = await client.post(receiver.url, '{}', {}, new AbortController().signal);
    expect(answer.error).toBe('no answer within 0.05 s');
    client.close();
    await receiver.close();
  });
});
