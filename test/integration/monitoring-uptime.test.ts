import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Server, type Socket } from 'socket.io';
import {
  provisionUptime,
  readDeclaredState,
  runUptimeProvision,
  type UptimeState,
} from '../../k8s/src/provision-uptime.ts';

const PASSWORD = 'correct horse battery staple 9';
const TOKEN = '0123456789abcdef0123456789abcdef';
const HEARTBEAT_URL = `http://uptime-kuma.monitoring:3001/api/push/${TOKEN}`;
const STATE: UptimeState = {
  notification: { name: 'Channel', webhookUrl: 'https://hooks.example.com/services/T/B/x' },
  monitors: [
    { name: 'Activity Sync', url: 'https://sync.example.com/healthz', intervalSeconds: 60 },
    { name: 'Grafana', url: 'https://grafana.example.com/api/health', intervalSeconds: 60 },
  ],
};

let uptime: Awaited<ReturnType<typeof startUptimeKuma>>;
beforeEach(async () => {
  uptime = await startUptimeKuma();
});
afterEach(() => uptime.close());

const provision = (state = STATE, password = PASSWORD) =>
  provisionUptime({ url: uptime.url, username: 'admin', password, timeoutMs: 2000 }, state);

describe('provisioning the uptime monitor', () => {
  it('creates the account, the notification and the monitors on a first visit', async () => {
    expect(await provision()).toEqual([
      'created the account admin',
      'added the notification Channel',
      'added the monitor Activity Sync',
      'added the monitor Grafana',
    ]);
    expect([...uptime.monitors.values()]).toEqual([
      expect.objectContaining({
        type: 'http',
        name: 'Activity Sync',
        url: 'https://sync.example.com/healthz',
        interval: 60,
      }),
      expect.objectContaining({
        type: 'http',
        name: 'Grafana',
        url: 'https://grafana.example.com/api/health',
        interval: 60,
      }),
    ]);
    const [notification] = uptime.notifications;
    expect(JSON.parse(notification?.config ?? '')).toMatchObject({
      type: 'slack',
      slackwebhookURL: STATE.notification.webhookUrl,
    });
    for (const monitor of uptime.monitors.values())
      expect(monitor.notificationIDList).toEqual({ [notification?.id ?? 0]: true });
  });

  it('changes nothing the second time', async () => {
    await provision();
    uptime.writes.length = 0;
    expect(await provision()).toEqual([]);
    expect(uptime.writes).toEqual([]);
  });

  it('changes what differs and keeps what was added manually', async () => {
    await provision();
    const [first] = uptime.monitors.values();
    Object.assign(first ?? {}, { interval: 20, description: 'ask Kim', notificationIDList: { 99: true } });
    const moved = { ...STATE, notification: { name: 'Channel', webhookUrl: 'https://hooks.example.com/new' } };

    expect(await provision(moved)).toEqual(['changed the notification Channel', 'changed the monitor Activity Sync']);
    expect([...uptime.monitors.values()][0]).toMatchObject({
      interval: 60,
      description: 'ask Kim',
      notificationIDList: { 1: true, 99: true },
    });
    expect(JSON.parse(uptime.notifications[0]?.config ?? '').slackwebhookURL).toBe('https://hooks.example.com/new');
    expect(await provision(moved)).toEqual([]);
  });

  it('does not guess which of two monitors of one name is meant', async () => {
    await provision();
    const [first] = uptime.monitors.values();
    uptime.monitors.set(7, { ...first, id: 7 } as never);
    await expect(provision()).rejects.toThrow(
      'Uptime Kuma has 2 monitors named Activity Sync (ids 1, 7); rename or delete all but one',
    );
  });

  it('says so when the password is wrong or too weak, or the monitor does not answer', async () => {
    await expect(provision(STATE, 'weak')).rejects.toThrow('Uptime Kuma refused "setup": passwordTooWeak');
    await provision();
    await expect(provision(STATE, 'another password 123')).rejects.toThrow(
      'Uptime Kuma refused "login": authIncorrectCreds',
    );
    await expect(
      provisionUptime({ url: 'http://127.0.0.1:1', username: 'admin', password: PASSWORD, timeoutMs: 2000 }, STATE),
    ).rejects.toThrow('Uptime Kuma does not answer at http://127.0.0.1:1');
  });
});

describe('the heartbeat of the alert path', () => {
  const withHeartbeat = { ...STATE, heartbeat: { name: 'Alert path', token: TOKEN, intervalSeconds: 180 } };

  it('is a push monitor that notifies the channel, and is left alone the second time', async () => {
    await provision(withHeartbeat);
    expect([...uptime.monitors.values()].at(-1)).toMatchObject({
      type: 'push',
      name: 'Alert path',
      pushToken: TOKEN,
      interval: 180,
      maxretries: 0,
      notificationIDList: { 1: true },
    });
    expect(await provision(withHeartbeat)).toEqual([]);
  });

  it('takes a new token', async () => {
    await provision(withHeartbeat);
    const rotated = { ...withHeartbeat, heartbeat: { ...withHeartbeat.heartbeat, token: 'f'.repeat(32) } };
    expect(await provision(rotated)).toEqual(['changed the monitor Alert path']);
    expect([...uptime.monitors.values()].at(-1)).toMatchObject({ pushToken: 'f'.repeat(32) });
  });
});

describe('the declared state', () => {
  const settings = { APP_HOST: 'a.example.com', GRAFANA_HOST: 'g.example.com', STACK_RELEASE_NAME: 'stack' };
  const declared = (heartbeatUrl: string) => readDeclaredState(settings, 'https://hooks.example.com/x', heartbeatUrl);

  it('watches the service, the dashboard tool and the three servers of the alert path every minute', () => {
    const { monitors } = declared(HEARTBEAT_URL);
    expect(monitors).toEqual([
      { name: 'Activity Sync', url: 'https://a.example.com/healthz', intervalSeconds: 60 },
      { name: 'Grafana', url: 'https://g.example.com/api/health', intervalSeconds: 60 },
      { name: 'Prometheus', url: 'http://stack-prometheus.monitoring:9090/-/ready', intervalSeconds: 60 },
      { name: 'Alertmanager', url: 'http://stack-alertmanager.monitoring:9093/-/ready', intervalSeconds: 60 },
      { name: 'Loki', url: 'http://loki.monitoring:3100/ready', intervalSeconds: 60 },
    ]);
  });

  it("expects the Alertmanager's heartbeat at the address that the Alertmanager is given", () => {
    expect(declared(HEARTBEAT_URL).heartbeat).toEqual({ name: 'Alert path', token: TOKEN, intervalSeconds: 180 });
    expect(() => declared('http://uptime-kuma:3001/api/push/short')).toThrow('must end in /api/push/ and a token');
  });

  it('needs the three secrets from files, never from the command line', async () => {
    const lines: string[] = [];
    expect(await runUptimeProvision([], (line) => lines.push(line))).toBe(2);
    expect(lines.join('\n')).toContain('--webhook-url-file <file>');
  });
});

/** A server that answers the events of Uptime Kuma 2 which provisioning uses, as that one's source does. */
async function startUptimeKuma() {
  const http = createServer();
  const io = new Server(http);
  const monitors = new Map<number, Record<string, unknown> & { id: number; notificationIDList: object }>();
  const notifications: { id: number; name: string; config: string }[] = [];
  const writes: string[] = [];
  let account: { username: string; password: string } | undefined;
  type Ack = (answer: unknown) => void;

  const store = (socket: Socket, event: string, monitor: Record<string, unknown> & { id?: number }, ack: Ack) => {
    if (socket.data.isSignedIn !== true) return ack({ ok: false, msg: 'You are not logged in.' });
    // What the server reads back as JSON must have been given, or its own list breaks.
    const asJson = ['conditions', 'kafkaProducerBrokers', 'rabbitmqNodes'];
    if (!Array.isArray(monitor.accepted_statuscodes) || asJson.some((field) => monitor[field] === undefined)) {
      return ack({ ok: false, msg: "Cannot read properties of undefined (reading 'every')" });
    }
    const id = monitor.id ?? monitors.size + 1;
    writes.push(`${event} ${String(monitor.name)}`);
    monitors.set(id, { ...monitor, id, notificationIDList: monitor.notificationIDList as object });
    return ack({ ok: true, monitorID: id });
  };

  io.on('connection', (socket) => {
    socket.on('needSetup', (ack: Ack) => ack(account === undefined));
    socket.on('setup', (username: string, password: string, ack: Ack) => {
      if (password.length < 8) return ack({ ok: false, msg: 'passwordTooWeak', msgi18n: true });
      account = { username, password };
      return ack({ ok: true });
    });
    socket.on('login', (given: { username: string; password: string }, ack: Ack) => {
      if (given.username !== account?.username || given.password !== account.password) {
        return ack({ ok: false, msg: 'authIncorrectCreds', msgi18n: true });
      }
      socket.data.isSignedIn = true;
      socket.emit('monitorList', Object.fromEntries(monitors));
      socket.emit('notificationList', notifications);
      return ack({ ok: true, token: 'jwt' });
    });
    socket.on('addNotification', (notification: { name: string }, id: number | null, ack: Ack) => {
      if (socket.data.isSignedIn !== true) return ack({ ok: false, msg: 'You are not logged in.' });
      const stored = {
        id: id ?? notifications.length + 1,
        name: notification.name,
        config: JSON.stringify(notification),
      };
      writes.push(`addNotification ${notification.name}`);
      const index = notifications.findIndex((item) => item.id === stored.id);
      if (index === -1) notifications.push(stored);
      else notifications[index] = stored;
      return ack({ ok: true, id: stored.id });
    });
    socket.on('add', (monitor, ack: Ack) => store(socket, 'add', monitor, ack));
    socket.on('editMonitor', (monitor, ack: Ack) => store(socket, 'editMonitor', monitor, ack));
  });

  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const { port } = http.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, monitors, notifications, writes, close: () => io.close() };
}
