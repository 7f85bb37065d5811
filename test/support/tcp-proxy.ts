import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

type Held = 'all' | 'answers' | 'nothing';

/** A TCP proxy in front of a server, to cut and to hold connections as a bad network does. */
export interface TcpProxy {
  readonly port: number;
  /** Where connections go from now on. */
  setTarget(port: number): void;
  /** Cuts every connection and refuses new ones until `restore`. */
  cut(): void;
  restore(): void;
  /** Keeps every connection open and lets nothing through, as a half-open connection does. */
  hold(): void;
  /** What the service sends arrives, and no answer comes back. */
  holdAnswers(): void;
  /**
   * As `hold`, or as `holdAnswers`, from the first data on in which a client sends `text`.
   * @param onHeld is called when it arrives, with the client that sent it
   * @param what 'nothing' only tells that it came
   * @param by the client that must send it; any of them unless given
   */
  holdFrom(text: string, onHeld: (client: Socket) => void, what?: Held, by?: Socket): void;
  /** Lets through everything that a PostgreSQL server sends except notifications, as a connection pooler may. Begin while it is idle. */
  dropNotifications(): void;
  release(): void;
  /** How many are open. */
  readonly connections: number;
  /** How many were opened so far. */
  readonly opened: number;
  close(): Promise<void>;
}

export async function startTcpProxy(targetPort: number): Promise<TcpProxy> {
  const pairs = new Set<[Socket, Socket]>();
  let target = targetPort;
  let refusing = false;
  let opened = 0;
  let holding: 'nothing' | 'notifications' | 'answers' | 'all' = 'nothing';

  let trap: { text: string; onHeld: (client: Socket) => void; what: Held; by: Socket | undefined } | undefined;

  const spring = (chunk: Buffer, client: Socket): void => {
    if (!trap || (trap.by && trap.by !== client) || !chunk.includes(trap.text)) return;
    const { what, onHeld } = trap;
    trap = undefined;
    holding = what;
    onHeld(client);
  };

  const server = createServer((client) => {
    if (refusing) {
      client.destroy();
      return;
    }
    const upstream = connect(target, '127.0.0.1');
    const pair: [Socket, Socket] = [client, upstream];
    pairs.add(pair);
    opened += 1;
    const withoutNotifications = createNotificationFilter();
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      from.on('data', (chunk) => {
        if (from === client) spring(chunk, client);
        if (holding === 'notifications' && from === upstream) to.write(withoutNotifications(chunk));
        else if (holding !== 'all' && (holding !== 'answers' || from === client)) to.write(chunk);
      });
      const end = () => {
        pairs.delete(pair);
        to.destroy();
      };
      from.on('error', end);
      from.on('close', end);
    }
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const cutAll = () => {
    for (const [client, upstream] of pairs) {
      client.destroy();
      upstream.destroy();
    }
  };
  return {
    port: (server.address() as AddressInfo).port,
    setTarget: (port) => {
      target = port;
    },
    cut: () => {
      refusing = true;
      cutAll();
    },
    restore: () => {
      refusing = false;
    },
    hold: () => {
      holding = 'all';
    },
    holdAnswers: () => {
      holding = 'answers';
    },
    holdFrom: (text, onHeld, what = 'all', by = undefined) => {
      trap = { text, onHeld, what, by };
    },
    dropNotifications: () => {
      holding = 'notifications';
    },
    release: () => {
      holding = 'nothing';
    },
    get connections() {
      return pairs.size;
    },
    get opened() {
      return opened;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        cutAll();
      }),
  };
}

/** Cuts the messages of type NotificationResponse ('A') out of what a PostgreSQL server sends. */
function createNotificationFilter(): (chunk: Buffer) => Buffer {
  let rest = Buffer.alloc(0);
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    const kept: Buffer[] = [];
    // One byte of type, then four of length, which count themselves.
    while (rest.length >= 5 && rest.length > rest.readUInt32BE(1)) {
      const size = 1 + rest.readUInt32BE(1);
      if (rest[0] !== 'A'.charCodeAt(0)) kept.push(rest.subarray(0, size));
      rest = rest.subarray(size);
    }
    return Buffer.concat(kept);
  };
}
