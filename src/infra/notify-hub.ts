import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import pg from 'pg';
import type { Clock } from '../domain/clock.ts';
import type { Logger } from './logger.ts';
import type { Metrics } from './metrics.ts';
import { CHANNEL, type Topic } from './notify.ts';
import type { Presence } from './presence.ts';

const CONNECT_MS = 5000;
// A lost connection is detected after a heartbeat and a half, and retried at most 2 s later: well before other
// processes may declare this one dead (see DeadProcessWatch).
const HEARTBEAT_MS = 5000;
const MAX_RECONNECT_WAIT_MS = 2000;

interface NotifyHubOptions {
  connectionString: string;
  clock: Clock;
  logger: Logger;
  metrics: Metrics;
  /** Registers the process on each connection before the hub counts as connected. */
  presence?: Presence;
  heartbeatMs?: number;
  /** How long the server may take to accept the connection, and for each answer after that. */
  connectMs?: number;
}

/**
 * Holds one connection that listens, and hands each notification to its listeners. A notification is only
 * a hint: the workers also poll. Each connection proves itself with a notification from another session, and then
 * with one of its own as the heartbeat: one over which none arrive counts as lost. After a lost connection every listener is called, since it may have missed any.
 */
export class NotifyHub {
  readonly #options: NotifyHubOptions;
  readonly #listeners = new Map<string, Set<(detail: string) => void>>();
  #client: pg.Client | undefined;
  #connecting: pg.Client | undefined;
  #timer: unknown;
  #failures = 0;
  #stopped = true;
  #everConnected = false;

  constructor(options: NotifyHubOptions) {
    this.#options = options;
  }

  /** True while notifications arrive, as far as the last heartbeat can tell. */
  get connected(): boolean {
    return this.#client !== undefined;
  }

  /**
   * Calls `listener` for each notification of the topic, with its detail: '' where it has none, as after a
   * lost connection.
   * @returns a function that ends it
   */
  on(topic: Topic, listener: (detail: string) => void): () => void {
    const listeners = this.#listeners.get(topic) ?? new Set();
    this.#listeners.set(topic, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  /** Connects; a first failure is thrown, after later ones it reconnects in the background. */
  async start(): Promise<void> {
    if (!this.#stopped) return;
    this.#stopped = false;
    await this.#connect();
  }

  /** Removes the process from the list of live ones, and disconnects. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#options.clock.clearTimeout(this.#timer);
    const clients = [this.#client, this.#connecting];
    this.#client = undefined;
    this.#options.metrics.listenConnected.set(0);
    if (clients[0]) await this.#options.presence?.leave(clients[0]);
    for (const client of clients) if (client) await giveUp(client);
  }

  async #connect(): Promise<void> {
    const { connectionString, connectMs = CONNECT_MS, presence } = this.#options;
    const settings = { connectionString, connectionTimeoutMillis: connectMs, query_timeout: connectMs };
    const client = new pg.Client({
      ...settings,
      application_name: 'activity-sync listen',
      keepAlive: true,
      keepAliveInitialDelayMillis: 5000,
    });
    const lost = (error: Error) => this.#lost(client, error);
    client.on('error', lost);
    client.on('end', () => lost(new Error('the connection ended')));
    client.on('notification', (message) => this.#dispatch(message.payload ?? ''));
    this.#connecting = client;
    try {
      await client.connect();
      await client.query(`LISTEN ${CHANNEL}`);
      await hearFromAnother(
        client,
        new pg.Client({ ...settings, application_name: 'activity-sync notify' }),
        connectMs,
      );
      await presence?.register(client);
    } catch (error) {
      presence?.lose();
      await giveUp(client);
      throw error;
    } finally {
      this.#connecting = undefined;
    }
    if (this.#stopped) {
      await presence?.leave(client);
      await giveUp(client);
      return;
    }
    this.#client = client;
    this.#failures = 0;
    this.#options.metrics.listenConnected.set(1);
    if (this.#everConnected) {
      this.#options.metrics.listenReconnects.inc();
      this.#options.logger.info('LISTEN connection re-established', { component: 'notify' });
      for (const topic of this.#listeners.keys()) this.#dispatch(topic);
    }
    this.#everConnected = true;
    this.#scheduleHeartbeat(client);
  }

  #dispatch(payload: string): void {
    const [topic = ''] = payload.split(':', 1);
    for (const listener of this.#listeners.get(topic) ?? []) listener(payload.slice(topic.length + 1));
  }

  // Detects a connection that died silently (a cut cable, a paused server), or that delivers no notifications.
  #scheduleHeartbeat(client: pg.Client): void {
    const { clock, heartbeatMs = HEARTBEAT_MS, presence } = this.#options;
    this.#timer = clock.setTimeout(() => {
      if (this.#client !== client) return;
      hear(client, client, heartbeatMs / 2)
        .then(() => presence?.heartbeat(client))
        .then(() => {
          if (this.#client === client) this.#scheduleHeartbeat(client);
        })
        .catch((error: Error) => this.#lost(client, error));
    }, heartbeatMs);
  }

  #lost(client: pg.Client, error: Error): void {
    if (this.#client !== client || this.#stopped) return;
    this.#client = undefined;
    this.#options.presence?.lose();
    this.#options.metrics.listenConnected.set(0);
    this.#options.logger.warn('LISTEN connection lost, reconnecting', {
      component: 'notify',
      error: error.message,
    });
    void giveUp(client);
    this.#reconnectLater();
  }

  #reconnectLater(): void {
    const { clock, logger } = this.#options;
    const waitMs = Math.min(MAX_RECONNECT_WAIT_MS, 100 * 2 ** this.#failures);
    this.#failures = Math.min(this.#failures + 1, 10);
    clock.clearTimeout(this.#timer);
    this.#timer = clock.setTimeout(() => {
      if (this.#stopped) return;
      this.#connect().catch((error: Error) => {
        if (this.#stopped) return;
        logger.warn('LISTEN connection failed, retrying', {
          component: 'notify',
          error: error.message,
          retryInMs: waitMs,
        });
        this.#reconnectLater();
      });
    }, waitMs);
  }
}

/** As `hear`. A transaction pooler passes on what a session sends to itself, and drops what others send to it. */
async function hearFromAnother(client: pg.Client, sender: pg.Client, withinMs: number): Promise<void> {
  sender.on('error', () => undefined); // its statement fails, or was sent already
  try {
    await sender.connect();
    await hear(client, sender, withinMs);
  } finally {
    await giveUp(sender);
  }
}

/** Sends a notification and waits until `client` receives it. @throws after `withinMs` */
async function hear(client: pg.Client, sender: pg.Client, withinMs: number): Promise<void> {
  const payload = `heartbeat:${randomUUID()}`;
  let timer: NodeJS.Timeout | undefined;
  let onNotification: (message: pg.Notification) => void = () => undefined;
  let onEnd: () => void = () => undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      onNotification = (message) => message.payload === payload && resolve();
      client.on('notification', onNotification);
      onEnd = () => reject(new Error('the connection ended'));
      client.on('end', onEnd);
      const late = new Error(
        'no notification arrived within the deadline; connect to the server itself, not to a transaction pooler',
      );
      // A process that was busy for that long first reads what has arrived in the meantime.
      timer = setTimeout(() => setImmediate(reject, late), withinMs);
      sender.query('SELECT pg_notify($1, $2)', [CHANNEL, payload]).catch(reject);
    });
  } finally {
    clearTimeout(timer);
    client.off('notification', onNotification);
    client.off('end', onEnd);
  }
}

const FAREWELL_MS = 1000;

/** Ends a connection, politely while the server answers. Never fails: the connection is not needed any more. */
async function giveUp(client: pg.Client): Promise<void> {
  client.removeAllListeners('notification').removeAllListeners('error'); // a pending heartbeat then fails
  client.on('error', () => undefined); // the caller has logged why
  // A server that vanished never confirms the end.
  const deadline = setTimeout(() => socketOf(client).destroy(), FAREWELL_MS);
  await client.end().catch(() => undefined);
  clearTimeout(deadline);
}

function socketOf(client: pg.Client): Socket {
  return (client as unknown as { connection: { stream: Socket } }).connection.stream;
}
