import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, ask } from './api/client.ts';
import { now } from './clock.ts';
import { connection, type LiveEvent, onLive, silentSince } from './live.ts';

/** Something read from the admin interface. */
export interface Resource<Body> {
  /** Undefined until the first answer; the last one while a newer one is loading. */
  data: Body | undefined;
  error: ApiError | undefined;
  /** When `data` was read, by the service's clock. */
  readAt: number | undefined;
  /** True until this address has answered once. */
  loading: boolean;
  reload: () => void;
}

interface State<Body> {
  path: string;
  data?: Body;
  readAt?: number;
  error?: ApiError;
}

/** A running read. */
interface Reading {
  abort: AbortController;
  /** Whether a live event began it, and no caller waits for it. */
  unasked: boolean;
}

// A single event is shown at once. While events keep coming, the list is read less and less often.
const QUIET_MS = 350;
const MAX_QUIET_MS = 1600;
const AFTER_ERROR_MS = 5000;

/** Whether the same request may succeed later: the service cannot be reached, or says that it is unavailable. */
export function passesByItself({ status }: ApiError): boolean {
  return status === 0 || status === 503;
}

/**
 * Reads an address, and reads it again when one of the live events arrives: at once, and in a storm of them at
 * least every two seconds.
 * After a transient error it reads again every five seconds; after any other only on request, since each
 * read may be a call to the provider.
 * @param everyMs also reads it this often while the page is visible and live
 */
export function useResource<Body>(
  path: string,
  refreshOn: readonly LiveEvent[] = [],
  everyMs?: number,
): Resource<Body> {
  const [state, setState] = useState<State<Body>>({ path });
  const pathNow = useRef(path);
  pathNow.current = path;
  const running = useRef<Reading | undefined>(undefined);

  const load = useCallback(async (unasked = false) => {
    const wanted = pathNow.current;
    const before = running.current;
    before?.abort.abort();
    const abort = new AbortController();
    // A read that replaces one with a waiting caller has a waiting caller as well.
    const reading = { abort, unasked: unasked && before?.unasked !== false };
    running.current = reading;
    try {
      const data = await ask<Body>('GET', wanted, { signal: abort.signal });
      if (!abort.signal.aborted) setState({ path: wanted, data, readAt: now.peek() });
    } catch (error) {
      if (abort.signal.aborted) return;
      const problem = error instanceof ApiError ? error : new ApiError(0, String(error));
      // Earlier data stays visible: it is old, not wrong.
      setState((before) =>
        before.path === wanted && problem.status !== 404
          ? { ...before, error: problem }
          : { path: wanted, error: problem },
      );
    } finally {
      if (running.current === reading) running.current = undefined;
    }
  }, []);
  const reload = useCallback(() => void load(), [load]);

  // A paused page does not change, not even by an answer that was still loading.
  useEffect(
    () =>
      connection.subscribe((state) => {
        if (state === 'paused' && running.current?.unasked) running.current.abort.abort();
      }),
    [],
  );

  useEffect(() => {
    void load();
    return () => running.current?.abort.abort();
  }, [path, load]);

  const events = refreshOn.join();
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let again = false;
    let quietMs = QUIET_MS;
    const settle = () => {
      timer = undefined;
      quietMs = again ? Math.min(2 * quietMs, MAX_QUIET_MS) : QUIET_MS;
      if (again) refresh();
    };
    const refresh = () => {
      if (connection.peek() === 'paused') return;
      again = timer !== undefined;
      if (again) return;
      timer = setTimeout(settle, quietMs);
      void load(true);
    };
    const unsubscribe = onLive(events === '' ? [] : (events.split(',') as LiveEvent[]), refresh);
    let wasSilent = false;
    const heardAgain = silentSince.subscribe((since) => {
      if (wasSilent && since === null && (events !== '' || everyMs !== undefined)) refresh();
      wasSilent = since !== null;
    });
    const repeat = everyMs === undefined ? undefined : setInterval(() => document.hidden || refresh(), everyMs);
    return () => {
      unsubscribe();
      heardAgain();
      clearTimeout(timer);
      clearInterval(repeat);
    };
  }, [events, everyMs, load]);

  useEffect(() => {
    if (!state.error || !passesByItself(state.error)) return;
    const isIdle = () => connection.peek() !== 'paused' && !document.hidden && !running.current;
    const timer = setInterval(() => isIdle() && void load(true), AFTER_ERROR_MS);
    return () => clearInterval(timer);
  }, [state, load]);

  return {
    data: state.data,
    error: state.error,
    readAt: state.readAt,
    loading: state.path !== path || (!state.data && !state.error),
    reload,
  };
}
