import { Agent, type IncomingHttpHeaders, type IncomingMessage, type RequestOptions, request } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { ask, type Description, readDescription } from '../support/admin.ts';
import { startApplication } from '../support/application.ts';
import { type FuzzRequest, fuzzRequests, type Sender } from '../support/fuzz-requests.ts';
import { ADMIN_TOKEN, cookieOf, READ_TOKEN, type Rig, startRig, testEnvironment } from '../support/service.ts';
import { freePort, type ServiceProcess, startServiceProcess } from '../support/service-process.ts';

const REQUESTS = Number(process.env.FUZZ_REQUESTS ?? 600);
const SEED = Number(process.env.FUZZ_SEED ?? 20_260_101);
// Then sessions, tokens and states are made again: requests end, use or revoke them.
const BATCH = 200;

// A process of its own: what ends it is seen, and its memory is its own.
let rig: Rig;
let service: ServiceProcess;
let agent: Agent;
beforeAll(async () => {
  const env = {
    SERVICE_ROLES: 'web',
    TRUSTED_PROXIES: '1',
    API_RATE_LIMIT: '1000000',
    RETURN_ORIGINS: 'https://app.example.com',
  };
  rig = await startRig({ env });
  const place = { PORT: String(await freePort()), DATABASE_URL: rig.database.url };
  service = startServiceProcess(testEnvironment(rig.simulator.url, { ...env, ...place }));
  agent = new Agent({ keepAlive: true });
  await service.ready();
});
afterAll(async () => {
  agent.destroy();
  await service.end('SIGTERM');
  await rig.close();
});

// Removing the subscription has every delivery answered 503, as it should be.
const LEFT_OUT = /^DELETE \/api\/admin\/webhooks$/;

it('answers any request as its description says, and never with a server error', async () => {
  const description = await readDescription(rig);
  const operations = description.operations.filter(({ method, path }) => !LEFT_OUT.test(`${method} ${path}`));
  const counts = new Map<string, number>();
  const wrong: string[] = [];
  const startedAt = performance.now();
  const rssMb = [await readRssMb()];
  for (let sent = 0; sent < REQUESTS; sent += BATCH) {
    const secrets = await makeSecrets();
    const batch = fc.sample(fuzzRequests(operations), { seed: SEED + sent, numRuns: Math.min(BATCH, REQUESTS - sent) });
    for (const [n, one] of batch.entries()) {
      const answer = await send(one, secrets, sent + n);
      const kind = String(answer.status);
      counts.set(kind, (counts.get(kind) ?? 0) + 1);
      const faults = faultsOf(one, answer, description);
      if (faults.length > 0) wrong.push(`${show(one)}: ${faults.join('; ')}`);
    }
    rssMb.push(await readRssMb());
  }
  if (process.env.FUZZ_REQUESTS !== undefined) {
    const seconds = Math.round((performance.now() - startedAt) / 1000);
    const kinds = [...counts].sort().map(([status, count]) => `${status}: ${count}`);
    const [before, half, after] = [rssMb[0], rssMb[Math.floor(rssMb.length / 2)], rssMb.at(-1)];
    const rss = `RSS of the service ${before} MB before, ${half} MB half way, ${after} MB after`;
    process.stdout.write(`${REQUESTS} requests with seed ${SEED} in ${seconds} s; ${kinds.join(', ')}; ${rss}\n`);
  }
  const log = wrong.length === 0 ? [] : service.output().match(/.*(request failed|not stored|unforeseen).*/g);
  expect({ seed: SEED, wrong, log }).toEqual({ seed: SEED, wrong: [], log: [] });
}, 3_600_000);

interface Answer {
  /** undefined: the connection was closed in place of an answer. */
  status: number | undefined;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

// The provider's refusal, of a code or of a subscription, is passed on as 502 by design.
const ASKS_PROVIDER = /^(POST|GET|HEAD) \/api\/(admin\/webhooks|provider\/callback)/;

function faultsOf(sent: FuzzRequest, answer: Answer, description: Description): string[] {
  const { status, headers } = answer;
  if (status === undefined) return ['the connection was closed'];
  if (status >= 500)
    return status === 502 && ASKS_PROVIDER.test(`${sent.method} ${sent.path}`) ? [] : [`${status} ${answer.body}`];
  if (!sent.operation || headers['content-type']?.startsWith('text/event-stream')) return [];
  const isRedirect = status >= 300 && status < 400;
  const isJson = headers['content-type']?.includes('json') === true;
  return description.misfits(sent.operation.method, sent.operation.path, {
    status,
    headers: new Headers(headers['content-type'] && !isRedirect ? { 'content-type': headers['content-type'] } : {}),
    body: isJson ? JSON.parse(String(answer.body)) : String(answer.body),
  });
}

type Secrets = Record<'{state}' | '{link}' | '{code}' | '{cookie}' | '{origin}', string> & {
  headersOf: Record<Sender, Record<string, string>>;
};

async function makeSecrets(): Promise<Secrets> {
  const { url } = service;
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
  const signedIn = await fetch(`${url}/api/admin/session`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin: url },
    body: JSON.stringify({ token: ADMIN_TOKEN }),
  });
  const returnUrl = 'https://app.example.com/';
  const { body: link } = await ask(rig, 'POST', '/api/v1/connect-links', { externalId: 'fuzz', returnUrl });
  const { search } = new URL(link.url);
  const begun = await fetch(`${url}/api/provider/connect${search}`, { redirect: 'manual' });
  const consent = new URL(begun.headers.get('location') ?? '');
  consent.search += `&auto=1&athlete=${rig.simulator.addAthlete().id}`;
  const granted = await fetch(consent, { redirect: 'manual' });
  const back = new URL(granted.headers.get('location') ?? '').searchParams;
  return {
    '{state}': back.get('state') ?? '',
    '{code}': back.get('code') ?? '',
    '{link}': new URLSearchParams(search).get('link') ?? '',
    '{cookie}': cookieOf(begun),
    '{origin}': url,
    headersOf: {
      admin: bearer(ADMIN_TOKEN),
      reader: bearer(READ_TOKEN),
      writer: bearer((await startApplication(rig)).token),
      session: { cookie: cookieOf(signedIn), origin: url },
      wrong: bearer('wrong'),
      stranger: {},
    },
  };
}

async function send(one: FuzzRequest, secrets: Secrets, n: number): Promise<Answer> {
  const fill = (template: string) =>
    template.replace(/\{(state|link|code|cookie|origin)\}/g, (name) => secrets[name as '{state}']);
  const headers: Record<string, string> = {
    // Each from its own address: no limit ends the run.
    'x-forwarded-for': `198.18.${(n >> 8) % 256}.${n % 256}`,
    ...secrets.headersOf[one.sender],
    ...one.headers,
    // Node sends a body of a GET without its length unless told.
    ...(one.body ? { 'content-length': String(one.body.length) } : {}),
  };
  const options = {
    agent,
    method: one.method,
    path: fill(one.path),
    headers: Object.fromEntries(Object.entries(headers).map(([name, content]) => [name, fill(content)])),
  };
  // The server may close a kept connection just when it is used again: such a request is sent again.
  return (await sendOnce(options, one.body)) ?? (await sendOnce(options, one.body)) ?? CUT_OFF;
}

const CUT_OFF: Answer = { status: undefined, headers: {}, body: Buffer.alloc(0) };

/** @returns undefined when the connection was closed in place of an answer */
function sendOnce(options: RequestOptions, body: Buffer | undefined): Promise<Answer | undefined> {
  return new Promise((resolve, reject) => {
    const asking = request(service.url, options);
    asking.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNRESET' || error.code === 'EPIPE') resolve(undefined);
      else reject(error);
    });
    asking.once('response', (response: IncomingMessage) => {
      const { statusCode: status, headers } = response;
      if (headers['content-type']?.startsWith('text/event-stream')) {
        response.destroy(); // it never ends
        resolve({ status, headers, body: Buffer.alloc(0) });
      } else buffer(response).then((read) => resolve({ status, headers, body: read }), reject);
    });
    asking.end(body);
  });
}

function show({ method, path, sender, headers, body }: FuzzRequest): string {
  return `${method} ${path} by ${sender} ${JSON.stringify({ headers, body: body?.toString().slice(0, 300) })}`;
}

async function readRssMb(): Promise<number> {
  const metrics = await (await fetch(`${service.url}/metrics`)).text();
  return Math.round(Number(/^process_resident_memory_bytes (.+)$/m.exec(metrics)?.[1]) / 1024 / 1024);
}
