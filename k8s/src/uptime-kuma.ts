import { io, type Socket } from 'socket.io-client';

/** A monitor as Uptime Kuma lists it; it has many more fields, which are kept as they are. */
export interface UptimeMonitor extends Record<string, unknown> {
  id: number;
  name: string;
  type: string;
  url: string;
  interval: number;
  active: boolean;
  notificationIDList: Record<string, boolean>;
}

/** A notification as Uptime Kuma lists it; `config` is JSON. */
export interface UptimeNotification {
  id: number;
  name: string;
  config: string;
}

interface Answer {
  ok?: boolean;
  msg?: string;
  tokenRequired?: boolean;
  monitorID?: number;
  id?: number;
}

/** Uptime Kuma refused something, or does not answer as version 2 does. */
export class UptimeKumaError extends Error {
  override name = 'UptimeKumaError';
}

/**
 * A signed-in session with Uptime Kuma 2, whose only interface is socket.io.
 *
 * Close it when done. It does not retry: a lost connection fails the call that waits for it.
 */
export class UptimeKuma {
  readonly #socket: Socket;
  readonly #timeoutMs: number;
  #monitors: Record<string, UptimeMonitor> | undefined;
  #notifications: UptimeNotification[] | undefined;

  private constructor(socket: Socket, timeoutMs: number) {
    this.#socket = socket;
    this.#timeoutMs = timeoutMs;
    socket.on('monitorList', (list: Record<string, UptimeMonitor>) => {
      this.#monitors = list;
    });
    socket.on('notificationList', (list: UptimeNotification[]) => {
      this.#notifications = list;
    });
  }

  /**
   * Connects and signs in. On a first visit it creates the admin account.
   * @returns the session, and whether the account was created
   * @throws UptimeKumaError when the address does not answer, or the account is refused
   */
  static async signIn(options: { url: string; username: string; password: string; timeoutMs: number }) {
    const { url, username, password, timeoutMs } = options;
    const socket = io(url, { reconnection: false, timeout: timeoutMs });
    const session = new UptimeKuma(socket, timeoutMs);
    try {
      await session.#connected(url);
      const hasNoAccount = (await session.#ask('needSetup')) as unknown as boolean;
      if (hasNoAccount) await session.#ask('setup', username, password);
      const answer = await session.#ask('login', { username, password, token: '' });
      if (answer.tokenRequired) {
        throw new UptimeKumaError(`The account ${username} has two-factor sign-in; provision with one that has none`);
      }
      return { session, isNewAccount: hasNoAccount };
    } catch (error) {
      socket.disconnect();
      throw error;
    }
  }

  /** All monitors of the account. */
  monitors(): UptimeMonitor[] {
    if (this.#monitors === undefined)
      throw new UptimeKumaError('Uptime Kuma sent no list of monitors after the sign-in');
    return Object.values(this.#monitors);
  }

  /** All notifications of the account. */
  notifications(): UptimeNotification[] {
    if (this.#notifications === undefined) {
      throw new UptimeKumaError('Uptime Kuma sent no list of notifications after the sign-in');
    }
    return this.#notifications;
  }

  /** Adds a notification, or replaces the one with the id. @returns its id */
  async saveNotification(config: Record<string, unknown>, id: number | null): Promise<number> {
    return (await this.#ask('addNotification', config, id)).id ?? id ?? 0;
  }

  /** Adds a monitor and starts it. */
  async addMonitor(monitor: Record<string, unknown>): Promise<void> {
    await this.#ask('add', monitor);
  }

  /** Replaces a monitor; fields that are left out are lost, so give all that it had. */
  async editMonitor(monitor: UptimeMonitor): Promise<void> {
    await this.#ask('editMonitor', monitor);
  }

  /** Ends the session. */
  close(): void {
    this.#socket.disconnect();
  }

  #connected(url: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#socket.once('connect', resolve);
      this.#socket.once('connect_error', (error) => {
        reject(new UptimeKumaError(`Uptime Kuma does not answer at ${url}: ${error.message}`));
      });
    });
  }

  async #ask(event: string, ...parameters: unknown[]): Promise<Answer> {
    let answer: Answer;
    try {
      answer = await this.#socket.timeout(this.#timeoutMs).emitWithAck(event, ...parameters);
    } catch (error) {
      throw new UptimeKumaError(`Uptime Kuma did not answer "${event}": ${(error as Error).message}`);
    }
    if (answer?.ok === false)
      throw new UptimeKumaError(`Uptime Kuma refused "${event}": ${answer.msg ?? 'no reason given'}`);
    return answer;
  }
}
