import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Service, startService } from '../../src/compose.ts';
import { readConfig } from '../../src/infra/config.ts';
import { removeEmbeddedPostgres } from '../../src/infra/embedded-postgres.ts';
import { createSilentLogger } from '../../src/infra/logger.ts';
import { migrate } from '../../src/infra/migrate.ts';
import { openStorage } from '../../src/infra/storage.ts';
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts';
import { forgetSubscription, saveSubscription } from '../../src/store/subscriptions.ts';
import { type ApiExample, apiExamples, type ExampleWorld } from './api-examples.ts';
import { startReceiver } from './receiver.ts';
import { testEnvironment } from './service.ts';
import { freePort } from './service-process.ts';
import { shortenJson, shortenText } from './shorten-answer.ts';

const ADMIN_TOKEN = 'an-admin-token-of-your-own';
const VERIFY_TOKEN = 'a-verify-token-of-your-own';
const SHOWN_URL = 'http://localhost:3000';
const PAGE = new URL('../../docs/api.md', import.meta.url);

const INTRODUCTION = `# HTTP interface

Every endpoint, called for real; written by \`npm run docs:api\` against a service of its own and the simulated
provider. Long answers are shortened (\`…\`). The schemas are in \`GET /api/openapi.json\`, made from the same
source that checks each request.

- \`/api/admin\` takes \`Authorization: Bearer $ADMIN_TOKEN\`, or \`$ADMIN_READ_TOKEN\` for read-only access (403 for changes). Without
  ADMIN_TOKEN it is closed (401). A browser may start a session instead.
- \`/api/v1\` is for the application: \`Authorization: Bearer\` with a token of its own (\`POST /api/admin/api-tokens\`), or
  the admin's. [integrate.md](integrate.md) says how to use it.
- Ids are 64-bit: decimal strings on the way out, numbers or strings on the way in. Times are ISO 8601 in UTC.
- Lists have \`limit\` (1 to 200, default 50) and \`nextCursor\`, which is the \`cursor\` of the next page; null ends them.
- Errors are \`application/problem+json\` with \`type\`, \`title\`, \`status\`, \`detail\`, and \`errors\` naming each bad field. Unknown
  paths are 404, wrong methods 405 with \`Allow\`, bodies over 64 KiB 413, unreadable JSON 400, other content types 415.
- \`/metrics\` and \`/readyz\` require no token: keep them inside your network ([security](security.md)).
`;

interface Operation {
  summary: string;
}
type Document = { paths: Record<string, Record<string, Operation>> };

/** Calls every endpoint and writes what came back. @throws where an endpoint has no example */
async function writeApiDocs(): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), 'activity-sync-docs-'));
  await chmod(dataDir, 0o755); // as root, PostgreSQL runs under another account, which must reach it
  const simulator = await startSimulator({ seed: 1 });
  const port = String(await freePort());
  const config = readConfig(
    testEnvironment(simulator.url, {
      PROVIDER_VERIFY_TOKEN: VERIFY_TOKEN,
      ADMIN_TOKEN,
      PORT: port,
      NEXT_PUBLIC_BASE_URL: `http://127.0.0.1:${port}`,
      DATA_DIR: dataDir,
      RETURN_ORIGINS: 'https://app.example.com',
      OUTBOUND_ALLOW_PRIVATE: 'true',
    }),
  );
  const logger = createSilentLogger();
  const storage = await openStorage(config, logger);
  try {
    await migrate({ connectionString: storage.connectionString, logger });
    const receiver = await startReceiver();
    const service = await startService({ config, logger, ...storage });
    try {
      const page = await describePage(service, await createWorld(service, simulator, receiver.url));
      await writeFile(
        PAGE,
        withShownAddresses(page, service, simulator).replaceAll(receiver.url, 'https://app.example.com'),
      );
    } finally {
      await service.stop();
      await receiver.close();
    }
  } finally {
    await simulator.close();
    await storage.close();
    await removeEmbeddedPostgres({ dataDir, log: () => undefined });
    await rm(dataDir, { recursive: true, force: true });
  }
}

function withShownAddresses(page: string, service: Service, simulator: Simulator): string {
  return page
    .replaceAll(`"host": "${hostname()}"`, '"host": "activity-sync-web-0"')
    .replaceAll(service.url, SHOWN_URL)
    .replaceAll(encodeURIComponent(service.url), encodeURIComponent(SHOWN_URL))
    .replaceAll(simulator.url, 'https://www.strava.com')
    .replaceAll(/(ast|whsec)_[\w+/=-]{40,}/g, '$1_…');
}

/** Connects athletes and lets an activity arrive, as a provider would. */
async function createWorld(service: Service, simulator: Simulator, receiverUrl: string): Promise<ExampleWorld> {
  const [athleteId, leaverId, newcomerId, secondLeaverId] = [
    'Ada Runner',
    'Bo Rider',
    'Cleo Walker',
    'Dara Swimmer',
  ].map((name) => simulator.addAthlete({ name }).id) as [string, string, string, string];
  for (const id of [athleteId, leaverId, secondLeaverId]) {
    const { address, cookie } = await consent(service, id);
    await (await fetch(address, { headers: { cookie } })).arrayBuffer();
  }
  const { id: activityId } = simulator.addActivity(athleteId, { name: 'Morning Run' });
  await saveSubscription(service.database, { id: '1', callbackUrl: '' });
  await simulator.deliver(
    { object_id: activityId, owner_id: athleteId, subscription_id: 1 },
    { url: `${service.url}/api/provider/webhook` },
  );
  const look = async () => service.database.query(`SELECT FROM thumbnail WHERE activity_id = $1`, [activityId]);
  while ((await look()).length === 0) await new Promise((resolve) => setTimeout(resolve, 50));
  await forgetSubscription(service.database, '1');
  const { address, cookie } = await consent(service, newcomerId);
  const back = new URL(address).searchParams;
  return {
    athleteId,
    leaverId,
    secondLeaverId,
    endpointUrl: `${receiverUrl}/hook`,
    activityId,
    jobId: '1',
    eventId: '1',
    syncId: '1',
    verifyToken: VERIFY_TOKEN,
    adminToken: ADMIN_TOKEN,
    state: back.get('state') ?? '',
    code: back.get('code') ?? '',
    connectCookie: cookie,
  };
}

/** The callback address for an athlete who consented, and the cookie of their browser. */
async function consent(service: Service, athleteId: string): Promise<{ address: string; cookie: string }> {
  const begun = await fetch(`${service.url}/api/provider/connect`, { redirect: 'manual' });
  const asked = new URL(begun.headers.get('location') ?? '');
  asked.searchParams.set('auto', '1');
  asked.searchParams.set('athlete', athleteId);
  const granted = await fetch(asked, { redirect: 'manual' });
  return {
    address: granted.headers.get('location') ?? '',
    cookie: begun.headers.get('set-cookie')?.split(';')[0] ?? '',
  };
}

async function describePage(service: Service, world: ExampleWorld): Promise<string> {
  const document = (await (await fetch(`${service.url}/api/openapi.json`)).json()) as Document;
  const missing = new Set(
    Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    ),
  );
  let text = INTRODUCTION;
  for (const [heading, examples] of Object.entries(apiExamples(world))) {
    text += `\n## ${heading}\n`;
    await untilAtRest(service);
    for (const example of examples) {
      const name = `${example.method} ${example.template}`;
      const { summary } = document.paths[example.template]?.[example.method.toLowerCase()] ?? { summary: '' };
      text += missing.delete(name) ? `\n### ${name}\n\n${summary}.\n` : `\n${example.note}\n`;
      text += `\n${await show(service, example)}`;
    }
  }
  missing.delete('GET /api/openapi.json');
  if (missing.size > 0) throw new Error(`No example of ${[...missing].join(', ')}. Add one to api-examples.ts.`);
  return text;
}

// Waits for the work of the earlier calls: the page shows a finished job, not one that happens to be running.
async function untilAtRest({ database }: Service): Promise<void> {
  const look = () =>
    database.query(
      `SELECT FROM "ActivityFetchJob" WHERE status IN ('pending', 'working') UNION ALL SELECT FROM delivery WHERE state = 'waiting'`,
    );
  while ((await look()).length > 0) await new Promise((resolve) => setTimeout(resolve, 50));
}

async function show(service: Service, example: ApiExample): Promise<string> {
  const path = example.path ?? example.template;
  const headers: Record<string, string> = {
    ...(example.public ? {} : { authorization: `Bearer ${ADMIN_TOKEN}` }),
    ...(example.body ? { 'content-type': 'application/json' } : {}),
    ...example.headers,
  };
  const response = await fetch(`${service.url}${path}`, {
    method: example.method,
    headers,
    redirect: 'manual',
    ...(example.body ? { body: JSON.stringify(example.body) } : {}),
  });
  const shown = [
    'curl -s',
    ...(example.method === 'GET' ? [] : [`-X ${example.method}`]),
    ...(example.public ? [] : ['-H "Authorization: Bearer $ADMIN_TOKEN"']),
    ...(example.body ? ["-H 'Content-Type: application/json'", `-d '${JSON.stringify(example.body)}'`] : []),
    `'${SHOWN_URL}${shortenText(path)}'`,
  ];
  return `\`\`\`\n$ ${shown.join(' ')}\n${await describeAnswer(response)}\n\`\`\`\n`;
}

async function describeAnswer(response: Response): Promise<string> {
  const type = response.headers.get('content-type')?.split(';')[0] ?? '';
  const named = ['location', 'etag', 'set-cookie', 'retry-after', 'allow']
    .map((name) => [name, response.headers.get(name)] as const)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name}: ${name === 'location' ? value : shortenText(value ?? '')}`);
  const head = [`${response.status}${type ? ` ${type}` : ''}`, ...named].join('\n');
  if (type === 'text/event-stream') return `${head}\n\n${await readFirstEvent(response)}\n…`;
  if (type === 'image/png') return `${head}\n\n(${(await response.arrayBuffer()).byteLength} bytes)`;
  const text = await response.text();
  if (text === '' || response.status === 302) return head;
  if (type.endsWith('json')) return `${head}\n\n${shortenJson(text)}`;
  if (type === 'text/html') return `${head}\n\n${/<h1[^>]*>(.*?)<\/h1>/.exec(text)?.[1] ?? ''} …`;
  return `${head}\n\n${text.split('\n').slice(0, 6).join('\n')}\n…`;
}

async function readFirstEvent(response: Response): Promise<string> {
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const decoder = new TextDecoder();
  let text = '';
  while (!/data:.*\n\n/.test(text)) {
    const { done, value } = await reader.read();
    if (done) break;
    text += decoder.decode(value, { stream: true });
  }
  await reader.cancel();
  return (text.split('\n\n').find((event) => event.includes('data:')) ?? '').trim();
}

await writeApiDocs();
