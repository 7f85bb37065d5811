import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** Connections on which a test sends what no client library would. */
export interface RawConnections {
  /** Opens one and sends the text. */
  open(text?: string | Buffer): Promise<Socket>;
  /** How many have been opened and not been closed by the server. */
  readonly alive: number;
  close(): void;
}

export function openRawConnections(port: number): RawConnections {
  const all = new Set<Socket>();
  let closing = false;
  return {
    open: async (text = '') => {
      const socket = connect(port, '127.0.0.1');
      socket.on('error', () => undefined); // what the server closes is reset
      socket.once('close', () => all.delete(socket));
      await once(socket, 'connect');
      all.add(socket);
      if (closing) socket.destroy();
      else if (text.length > 0) socket.write(text);
      return socket;
    },
    get alive() {
      return all.size;
    },
    close: () => {
      closing = true;
      for (const socket of all) socket.destroy();
    },
  };
}
