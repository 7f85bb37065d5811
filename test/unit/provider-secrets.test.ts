import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createProvider, type Provider } from '../../src/provider/client.ts';
import { ProviderError } from '../../src/provider/errors.ts';
import { createTransport, type Transport } from '../../src/provider/transport.ts';
import {
  answerJson,
  type HostileProvider,
  type ReceivedCall,
  startHostileProvider,
} from '../support/hostile-provider.ts';

// As random as real ones, so that no ordinary word is like a part of them.
const SECRETS = {
  accessToken: 'a83f1e0c5d7742b99c6d20f4e1b8a7c35f90d216',
  clientSecret: 'kQ7vWz3PbX9rTn5LdY2mHs8Jc4Gf6A',
  refreshToken: '5c0e9b7fa1d84c36b2e7f0a98d1c64b35e7a9f02',
  code: 'q9Zk-Vp4_x',
  verifyToken: 'our verify&token=7%',
};

let hostile: HostileProvider;
let transport: Transport;
let provider: Provider;
beforeAll(async () => {
  hostile = await startHostileProvider();
  transport = createTransport({
    origin: hostile.origin,
    timeoutMs: 5000,
    observer: { call: () => undefined, usage: () => undefined },
    userAgent: 'activity-sync-test',
    now: () => Date.now(),
  });
  const application = { origin: hostile.origin, clientId: '12345', clientSecret: SECRETS.clientSecret };
  provider = createProvider(transport, application);
});
afterAll(async () => {
  transport.close();
  await hostile.close();
});

const CALLS: [name: string, call: () => Promise<unknown>][] = [
  ['an activity', () => provider.getActivity(SECRETS.accessToken, '1')],
  ['a list', () => provider.listActivities(SECRETS.accessToken, { page: 1, perPage: 200 })],
  ['the athlete', () => provider.getAthlete(SECRETS.accessToken)],
  ['the exchange of a code', () => provider.exchangeCode(SECRETS.code)],
  ['a refresh', () => provider.refreshToken(SECRETS.refreshToken)],
  ['a deauthorisation', () => provider.deauthorize(SECRETS.accessToken)],
  [
    'a new subscription',
    () => provider.createSubscription({ callbackUrl: 'https://a.example', verifyToken: SECRETS.verifyToken }),
  ],
  ['the subscriptions', () => provider.listSubscriptions()],
  ['a deleted subscription', () => provider.deleteSubscription('1')],
];

const requestOf = ({ method, url, headers, body }: ReceivedCall) => {
  const { authorization = '', ...others } = headers;
  return `${body}\nAuthorization: ${authorization}\n${method} ${url}\n${JSON.stringify(others)}`;
};

const ECHOES: [form: string, words: (call: ReceivedCall) => string][] = [
  ['as it was sent', requestOf],
  ['decoded', (call) => decodeURIComponent(requestOf(call).replaceAll('+', ' ').replaceAll('%25', '%2525'))],
  ['as JSON', (call) => JSON.stringify(call)],
  ['doubly encoded', (call) => encodeURIComponent(requestOf(call))],
  ['as Base64', (call) => Buffer.from(requestOf(call)).toString('base64')],
  [
    'with the secret at the end of what is kept',
    (call) => `${'x '.repeat(80)}${call.headers.authorization ?? call.body}`,
  ],
];

/** Secrets, each in parts of ten characters: half a token is a secret too. */
const parts = Object.values(SECRETS).flatMap((secret) =>
  Array.from({ length: secret.length - 9 }, (_unused, from) => secret.slice(from, from + 10)),
);

describe.each(ECHOES)('a provider that echoes the request %s', (_form, words) => {
  it.each(CALLS)('gets no secret into the error of %s', async (_name, call) => {
    for (const status of [400, 401, 500]) {
      hostile.answer = (received, response) =>
        answerJson(response, status, { message: words(received), errors: [{ field: words(received) }] });
      const error = await call().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(ProviderError);
      const { message, status: shownStatus, providerMessage = '' } = error as ProviderError;
      expect(shownStatus).toBe(status);
      expect(providerMessage.length).toBeLessThanOrEqual(200);
      expect(message.length).toBeLessThan(400);
      const shown = inspect(error, { depth: 10 });
      expect(parts.filter((part) => shown.includes(part) || shown.includes(encodeURIComponent(part)))).toEqual([]);
    }
  });
});

describe('an answer that cannot be read', () => {
  it.each([
    ['is the echoed request', (call: ReceivedCall) => call.headers.authorization ?? ''],
    ['is broken JSON with a token', (call: ReceivedCall) => `{"a": ${call.headers.authorization}`],
  ])('shows nothing of itself when it %s', async (_case, body) => {
    hostile.answer = (call, response) => answerJson(response, 200, body(call));
    const error = await provider.getActivity(SECRETS.accessToken, '1').catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'UNREADABLE' });
    const shown = inspect(error, { depth: 10 });
    expect(parts.filter((part) => shown.includes(part))).toEqual([]);
  });

  it('keeps the client’s own error, which holds the headers, out of a call that was cut', async () => {
    hostile.answer = (_call, response) => response.destroy();
    const error = await provider.getActivity(SECRETS.accessToken, '1').catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'NETWORK', message: 'GET /api/v3/activities/1: no answer (ECONNRESET)' });
    expect(inspect(error, { depth: 10 })).not.toContain(SECRETS.accessToken);
  });
});

describe('the provider’s ordinary words', () => {
  it.each([
    'Rate Limit Exceeded',
    'Authorization Error: AccessToken activity:read_permission missing',
    'Record Not Found: Activity id invalid',
    'Bad Request: Application client_id invalid',
    'Bad Request: AuthorizationCode code invalid',
    'Bad Request: PushSubscription callback url GET to callback URL does not return 200',
    'GET https://sync.example.com/api/provider/webhook does not answer',
  ])('stay as they are: %s', async (words) => {
    hostile.answer = (_call, response) => answerJson(response, 400, { message: words });
    await expect(provider.getAthlete(SECRETS.accessToken)).rejects.toMatchObject({ providerMessage: words });
  });
});
