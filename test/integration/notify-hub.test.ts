import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { systemClock } from '../../src/domain/clock.ts';
import type { Database } from '../../src/infra/database.ts';
import { createSilentLogger } from '../../src/infra/logger.ts';
import { createMetrics, type Metrics } from '../../src/infra/metrics.ts';
import { notify as notifyIn, TOPICS, type Topic } from '../../src/infra/notify.ts';
import { NotifyHub } from '../../src/infra/notify-hub.ts';
import { createTestDatabase, openTestDatabase, type TestDatabase } from '../support/database.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

let database: TestDatabase;
let sender: Database;
let proxy: TcpProxy;
let hub: NotifyHub;
let metrics: Metrics;

beforeAll(async () => {
  database = await createTestDatabase({ template: false });
  sender = openTestDatabase(database.url);
});
afterAll(async () => {
  await sender.close();
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

const notify = (topic: Topic, detail?: string) => notifyIn(sender, topic, detail);
/** Resolves with what the listener of a topic hears next. */
const hear = (topic: Topic) =>
  new Promise<string>((resolve) => {
    const unsubscribe = hub.on(topic, (detail) => {
      unsubscribe();
      resolve(`${topic} ${detail}`.trim());
    });
  });
const endOfListener = () =>
  sender.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'activity-sync listen' AND datname = current_database()`,
  );
const reconnects = async () => (await metrics.listenReconnects.get()).values[0]?.value;

describe('a notification', () => {
  it('reaches the listeners of its topic with its detail, and no others', async () => {
    const heard: string[] = [];
    const unsubscribe = TOPICS.map((topic) => hub.on(topic, (detail) => heard.push(`${topic} ${detail}`)));
    const sent = ['activity 42', 'fetch ', 'sync 7', 'thumbnail '];
    const last = hear('thumbnail');
    await notify('activity', '42');
    await notify('fetch');
    await notify('sync', '7');
    await notify('thumbnail');
    await last;
    expect(heard).toEqual(sent);
    for (const end of unsubscribe) end();
    const again = hear('thumbnail');
    await notify('fetch');
    await notify('thumbnail');
    await again;
    expect(heard).toEqual(sent);
  });
});

describe('a LISTEN connection that breaks', () => {
  it('is re-established and listens again, and every listener is called, since it may have missed something', async () => {
    const woken = [hear('fetch'), hear('thumbnail')];
    await endOfListener();
    expect(await Promise.all(woken)).toEqual(['fetch', 'thumbnail']);
    expect(hub.connected).toBe(true);
    expect(await reconnects()).toBe(1);
    const heard = hear('budget');
    await notify('budget');
    expect(await heard).toBe('budget');
  });

  it('silently (half-open) is found by the heartbeat and re-established', async () => {
    const woken = hear('fetch');
    proxy.hold();
    while (hub.connected) await new Promise((resolve) => setTimeout(resolve, 5));
    proxy.release();
    expect(await woken).toBe('fetch');
    const heard = hear('budget');
    await notify('budget');
    expect(await heard).toBe('budget');
  });

  it('counts as lost while the server answers but no notification comes through, and is re-established after it', async () => {
    const listenConnected = async () => (await metrics.listenConnected.get()).values[0]?.value;
    proxy.dropNotifications();
    await until(() => !hub.connected, 'the loss of a connection that hears nothing');
    expect(await listenConnected()).toBe(0);
    // New connections let LISTEN through and hear nothing either: none of them counts.
    const before = proxy.opened;
    await until(() => proxy.opened > before + 1, 'two more attempts', 5000);
    expect(hub.connected).toBe(false);
    const woken = hear('fetch');
    proxy.release();
    await woken;
    expect(await listenConnected()).toBe(1);
  });

  it('is retried for as long as the server is unreachable', async () => {
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
  it('ends at once while the connection is up, also when repeated or before the start', async () => {
    await hub.stop();
    await hub.stop();
    expect(hub.connected).toBe(false);
    const url = database.url;
    await new NotifyHub({ connectionString: url, clock: systemClock, logger: createSilentLogger(), metrics }).stop();
  });

  it('does not wait for a server that vanished', async () => {
    proxy.hold();
    const startedAt = performance.now();
    await hub.stop();
    expect(performance.now() - startedAt).toBeLessThan(3000);
    proxy.release();
  });

  it('ends the attempts to reconnect', async () => {
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
      proxy.holdFrom('LISTEN', () => resolve());
    });

  it('is dropped, and tried again', async () => {
    const asked = holdFromListen();
    await endOfListener();
    await asked;
    const woken = hear('fetch');
    proxy.release();
    expect(await woken).toBe('fetch');
    expect(hub.connected).toBe(true);
  });

  it('does not delay the stop', async () => {
    const asked = holdFromListen();
    await endOfListener();
    await asked;
    await hub.stop();
    await until(() => proxy.connections === 0, 'the end of the connection that was being made');
  });
});
