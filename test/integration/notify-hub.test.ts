import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { systemClock } from '../../src/domain/clock.ts';
import { createSilentLogger } from '../../src/infra/logger.ts';
import { createMetrics, type Metrics } from '../../src/infra/metrics.ts';
import { CHANNEL, NotifyHub } from '../../src/infra/notify-hub.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

let database: TestDatabase;
let sender: pg.Client;
let proxy: TcpProxy;
let hub: NotifyHub;
let metrics: Metrics;

beforeAll(async () => {
  database = await createTestDatabase({ template: false });
  sender = new pg.Client({ connectionString: database.url });
  await sender.connect();
});
afterAll(async () => {
  await sender.end();
  await database.drop();
});
beforeEach(async () => {
  const url = new URL(database.url);
  proxy = await startTcpProxy(Number(url.port));
  url.port = String(proxy.port);
  metrics = createMetrics();
  hub = new NotifyHub({
    connectionString: url.href,
    clock: systemClock,
    logger: createSilentLogger(),
    metrics,
    heartbeatMs: 100,
    connectMs: 1000,
  });
  await hub.start();
});
afterEach(async () => {
  await hub.stop();
  await proxy.close();
});

const notify = (payload: string) => sender.query('SELECT pg_notify($1, $2)', [CHANNEL, payload]);
/** Resolves with what the listener of a topic hears next. */
const hear = (topic: string) =>
  new Promise<string>((resolve) => {
    const unsubscribe = hub.on(topic, (payload) => {
      unsubscribe();
      resolve(payload);
    });
  });
const endOfListener = () =>
  sender.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'activity-sync listen' AND datname = current_database()`,
  );
const reconnects = async () => (await metrics.listenReconnects.get()).values[0]?.value;

describe('a notification', () => {
  it('reaches those who listen for its topic, with what follows the colon, and nobody else', async () => {
    const heard: string[] = [];
    const unsubscribe = ['activity', 'fetch'].map((topic) => hub.on(topic, (payload) => heard.push(payload)));
    const last = hear('thumbnail');
    for (const payload of ['activity:42', 'fetch', 'fetching', 'thumbnail']) await notify(payload);
    await last;
    expect(heard).toEqual(['activity:42', 'fetch']);
    for (const end of unsubscribe) end();
    const again = hear('thumbnail');
    await notify('fetch');
    await notify('thumbnail');
    await again;
    expect(heard).toEqual(['activity:42', 'fetch']);
  });
});

describe('a LISTEN connection that breaks', () => {
  it('is made anew and listens again, and every listener is called, since it may have missed something', async () => {
    const woken = [hear('fetch'), hear('thumbnail')];
    await endOfListener();
    expect(await Promise.all(woken)).toEqual(['fetch', 'thumbnail']);
    expect(hub.connected).toBe(true);
    expect(await reconnects()).toBe(1);
    const heard = hear('budget');
    await notify('budget');
    expect(await heard).toBe('budget');
  });

  it('without a word (half-open) is found by the heartbeat and made anew', async () => {
    const woken = hear('fetch');
    proxy.hold();
    while (hub.connected) await new Promise((resolve) => setTimeout(resolve, 5));
    proxy.release();
    expect(await woken).toBe('fetch');
    const heard = hear('budget');
    await notify('budget');
    expect(await heard).toBe('budget');
  });

  it('is tried again for as long as the server is away', async () => {
    proxy.cut();
    while (hub.connected) await new Promise((resolve) => setTimeout(resolve, 5));
    expect((await metrics.listenConnected.get()).values[0]?.value).toBe(0);
    const woken = hear('fetch');
    proxy.restore();
    await woken;
    expect((await metrics.listenConnected.get()).values[0]?.value).toBe(1);
  });
});

describe('stopping', () => {
  it('ends at once while the connection stands, twice as well as before the start', async () => {
    await hub.stop();
    await hub.stop();
    expect(hub.connected).toBe(false);
    const url = database.url;
    await new NotifyHub({ connectionString: url, clock: systemClock, logger: createSilentLogger(), metrics }).stop();
  });

  it('does not wait for a server that went without a word', async () => {
    proxy.hold();
    const startedAt = performance.now();
    await hub.stop();
    expect(performance.now() - startedAt).toBeLessThan(3000);
    proxy.release();
  });

  it('ends the attempts to connect again', async () => {
    proxy.cut();
    while (hub.connected) await new Promise((resolve) => setTimeout(resolve, 5));
    await hub.stop();
    proxy.restore();
    expect(hub.connected).toBe(false);
  });
});

describe('the first connection', () => {
  it('that cannot be made is an error', async () => {
    proxy.cut();
    const url = new URL(database.url);
    url.port = String(proxy.port);
    const first = new NotifyHub({
      connectionString: url.href,
      clock: systemClock,
      logger: createSilentLogger(),
      metrics,
    });
    await expect(first.start()).rejects.toThrow();
    await first.stop();
  });
});

describe('a server that lets the service in and then says nothing', () => {
  /** Goes on as the proxy does until the service has asked to listen. */
  const holdFromListen = () =>
    new Promise<void>((resolve) => {
      proxy.holdFrom('LISTEN', resolve);
    });

  it('is given up, and asked anew', async () => {
    const asked = holdFromListen();
    await endOfListener();
    await asked;
    const woken = hear('fetch');
    proxy.release();
    expect(await woken).toBe('fetch');
    expect(hub.connected).toBe(true);
  });

  it('holds up no stop', async () => {
    const asked = holdFromListen();
    await endOfListener();
    await asked;
    await hub.stop();
    await until(() => proxy.connections === 0, 'the end of the connection that was being made');
  });
});
