/** Slots for event streams, of which each holds a connection. */
export interface StreamSlots {
  /**
   * Takes a slot.
   * @param credential the client's token or session, each of which has its share
   * @returns what frees the slot; undefined when there is none left
   */
  take(credential: string): (() => void) | undefined;
}

/** How long a stream may last, in milliseconds: then its client reconnects, and its credential is checked again. */
export const STREAM_LIFETIME_MS = 3_600_000;

const MAX_STREAMS = 500;
const MAX_STREAMS_OF_CREDENTIAL = 50;

/** @param reserved the credential that always gets one stream, however many there are */
export function createStreamSlots(reserved?: string): StreamSlots {
  const countOf = new Map<string, number>();
  let streams = 0;
  return {
    take: (credential) => {
      const count = countOf.get(credential) ?? 0;
      const isFull = streams >= MAX_STREAMS || count >= MAX_STREAMS_OF_CREDENTIAL;
      if (isFull && !(credential === reserved && count === 0)) return undefined;
      countOf.set(credential, count + 1);
      streams += 1;
      return () => {
        streams -= 1;
        const left = (countOf.get(credential) ?? 0) - 1;
        if (left > 0) countOf.set(credential, left);
        else countOf.delete(credential);
      };
    },
  };
}
