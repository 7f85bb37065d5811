import type { Socket } from 'node:net';
import pg from 'pg';
import type { Clock } from '../domain/clock.ts';
import type { Logger } from './logger.ts';
import type { Metrics } from './metrics.ts';

/** The one channel of the service; the payload says what changed. */
export const CHANNEL = 'activity_sync';

const CONNECT_MS = 5000;

/** What a notification is about: `fetch` jobs to claim, `thumbnail` jobs, the `budget`, or anything shown live. */
export type Topic = string;

interface NotifyHubOptions {
  connectionString: string;
  clock: Clock;
  logger: Logger;
  metrics: Metrics;
  heartbeatMs?: number;
  /** How long the server may take to let us in, and again to listen. */
  connectMs?: number;
}

/**
 * Holds one connection that listens, and hands each notification to those who asked. A notification
 * is only a hint: whoever listens also looks by itself from time to time. After a broken connection
 * every listener is called, since anything may have been missed.
 */
export class NotifyHub {
  readonly #options: NotifyHubOptions;
  readonly #listeners = new Map<Topic, Set<(payload: string) => void>>();
  #client: pg.Client | undefined;
  #connecting: pg.Client | undefined;
  #timer: unknown;
  #failures = 0;
  #stopped = true;
  #everConnected = false;

  constructor(options: NotifyHubOptions) {
    this.#options = options;
  }

  /** True while the connection stands. */
  get connected(): boolean {
    return this.#client !== undefined;
  }

  /**
   * Calls `listener` for each notification whose payload is `topic`, or begins with `topic:`.
   * @returns a function that ends it
   */
  on(topic: Topic, listener: (payload: string) => void): () => void {
    const listeners = this.#listeners.get(topic) ?? new Set();
    this.#listeners.set(topic, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  /** Connects; a first failure is thrown, later ones are mended in the background. */
  async start(): Promise<void> {
    if (!this.#stopped) return;
    this.#stopped = false;
    await this.#connect();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#options.clock.clearTimeout(this.#timer);
    const clients = [this.#client, this.#connecting];
    this.#client = undefined;
    this.#options.metrics.listenConnected.set(0);
    for (const client of clients) if (client) await giveUp(client);
  }

  async #connect(): Promise<void> {
    const { connectionString, connectMs = CONNECT_MS } = this.#options;
    const client = new pg.Client({
      connectionString,
      application_name: 'activity-sync listen',
      connectionTimeoutMillis: connectMs,
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
      // There is no heartbeat yet.
      const listen: pg.QueryConfig & { query_timeout: number } = {
        text: `LISTEN ${CHANNEL}`,
        query_timeout: connectMs,
      };
      await client.query(listen);
    } catch (error) {
      await giveUp(client);
      throw error;
    } finally {
      this.#connecting = undefined;
    }
    if (this.#stopped) {
      await giveUp(client);
      return;
    }
    this.#client = client;
    this.#failures = 0;
    this.#options.metrics.listenConnected.set(1);
    if (this.#everConnected) {
      this.#options.metrics.listenReconnects.inc();
      this.#options.logger.info('LISTEN connection stands again', { component: 'notify' });
      for (const topic of this.#listeners.keys()) this.#dispatch(topic);
    }
    this.#everConnected = true;
    this.#scheduleHeartbeat(client);
  }

  #dispatch(payload: string): void {
    const topic = payload.split(':', 1)[0] ?? '';
    for (const listener of this.#listeners.get(topic) ?? []) listener(payload);
  }

  // Finds a connection that died without a word (a cut cable, a paused server).
  #scheduleHeartbeat(client: pg.Client): void {
    const { clock, heartbeatMs = 10_000 } = this.#options;
    this.#timer = clock.setTimeout(() => {
      if (this.#client !== client) return;
      const deadline = clock.setTimeout(
        () => this.#lost(client, new Error('no answer to a heartbeat')),
        heartbeatMs / 2,
      );
      client.query('SELECT 1').then(
        () => {
          clock.clearTimeout(deadline);
          if (this.#client === client) this.#scheduleHeartbeat(client);
        },
        (error: Error) => {
          clock.clearTimeout(deadline);
          this.#lost(client, error);
        },
      );
    }, heartbeatMs);
  }

  #lost(client: pg.Client, error: Error): void {
    if (this.#client !== client || this.#stopped) return;
    this.#client = undefined;
    this.#options.metrics.listenConnected.set(0);
    this.#options.logger.warn('LISTEN connection lost; polling goes on while it is made anew', {
      component: 'notify',
      error: error.message,
    });
    void giveUp(client);
    this.#reconnectLater();
  }

  #reconnectLater(): void {
    const { clock, logger } = this.#options;
    const waitMs = Math.min(10_000, 100 * 2 ** this.#failures);
    this.#failures = Math.min(this.#failures + 1, 10);
    clock.clearTimeout(this.#timer);
    this.#timer = clock.setTimeout(() => {
      if (this.#stopped) return;
      this.#connect().catch((error: Error) => {
        if (this.#stopped) return;
        logger.warn('LISTEN connection cannot be made yet', {
          component: 'notify',
          error: error.message,
          retryInMs: waitMs,
        });
        this.#reconnectLater();
      });
    }, waitMs);
  }
}

const FAREWELL_MS = 1000;

/** Ends a connection, politely while the server answers. Never fails: nobody needs it any more. */
async function giveUp(client: pg.Client): Promise<void> {
  client.removeAllListeners();
  client.on('error', () => undefined); // whoever gives it up has told why
  // A server that has gone without a word never answers the farewell.
  const deadline = setTimeout(() => socketOf(client).destroy(), FAREWELL_MS);
  await client.end().catch(() => undefined);
  clearTimeout(deadline);
}

function socketOf(client: pg.Client): Socket {
  return (client as unknown as { connection: { stream: Socket } }).connection.stream;
}
