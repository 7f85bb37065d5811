/** One server-sent event. */
export interface SentEvent {
  id: string;
  event: string;
  data: unknown;
}

/** Reads a stream of server-sent events. */
export interface EventReader {
  status: number;
  /** Everything that came so far, comments and retry lines included. */
  readonly text: string;
  readonly events: SentEvent[];
  /** The first event that fits, past or future, from the one with index `from` on. */
  until(fits: (event: SentEvent) => boolean, from?: number, timeoutMs?: number): Promise<SentEvent>;
  /** Resolves when the service has ended the stream. */
  ended: Promise<void>;
  close(): Promise<void>;
}

export async function readEvents(url: string, headers: Record<string, string>): Promise<EventReader> {
  const abort = new AbortController();
  const response = await fetch(url, { headers, signal: abort.signal });
  const events: SentEvent[] = [];
  const waiting = new Set<() => void>();
  let text = '';
  const readAll = async () => {
    const decoder = new TextDecoder();
    let rest = '';
    for await (const chunk of response.body ?? []) {
      const piece = decoder.decode(chunk as Uint8Array, { stream: true });
      text += piece;
      const messages = (rest + piece).split('\n\n');
      rest = messages.pop() as string;
      for (const message of messages) {
        const fields = Object.fromEntries(
          message.split('\n').map((line) => {
            const at = line.indexOf(': ');
            return [line.slice(0, at), line.slice(at + 2)];
          }),
        ) as Record<string, string>;
        if (fields.event !== undefined)
          events.push({ id: fields.id as string, event: fields.event, data: JSON.parse(fields.data as string) });
      }
      for (const wake of waiting) wake();
    }
  };
  const ended = readAll().catch((error: Error) => {
    if (!abort.signal.aborted) throw error;
  });

  return {
    status: response.status,
    get text() {
      return text;
    },
    events,
    ended,
    until: (fits, from = 0, timeoutMs = 5000) =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
          waiting.delete(look);
          reject(new Error(`No such event came; there were ${JSON.stringify(events.slice(from))}`));
        }, timeoutMs);
        const look = () => {
          const found = events.slice(from).find(fits);
          if (!found) return;
          clearTimeout(timer);
          waiting.delete(look);
          resolve(found);
        };
        waiting.add(look);
        look();
      }),
    close: async () => {
      abort.abort();
      await ended;
    },
  };
}
