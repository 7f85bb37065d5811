import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { DatabaseSync } from 'node:sqlite';
import createClient from 'openapi-fetch';
import { Webhook, WebhookVerificationError } from 'standardwebhooks';
import type { paths } from './activity-sync-api.d.ts';

/** An application that keeps its own table of its users' activities in sync. */
export interface App {
  url: string;
  /** Its table, newest activity first. */
  activities(): Record<string, unknown>[];
  stop(): Promise<void>;
}

const LOOK_AGAIN_MS = 10_000;
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS activity (id TEXT PRIMARY KEY, athlete TEXT, user TEXT, name TEXT, sport TEXT, start TEXT, distance REAL);
  CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value TEXT)`;

/**
 * @param options.service address of Activity Sync
 * @param options.token of POST /api/admin/api-tokens, with the scope write
 * @param options.file of the application's own database
 */
export async function startApp(options: { service: string; token: string; port: number; file: string }): Promise<App> {
  const api = createClient<paths>({ baseUrl: options.service, headers: { authorization: `Bearer ${options.token}` } });
  const db = new DatabaseSync(options.file, { timeout: 5000 });
  db.exec(SCHEMA);
  const setting = (name: string) =>
    db.prepare('SELECT value FROM setting WHERE name = ?').get(name)?.value as string | undefined;
  const set = (name: string, value: string) => db.prepare('REPLACE INTO setting VALUES (?, ?)').run(name, value);

  const store = async (id: string): Promise<void> => {
    const { data: a, response } = await api.GET('/api/v1/activities/{id}', { params: { path: { id } } });
    if (a)
      db.prepare('REPLACE INTO activity VALUES (?, ?, ?, ?, ?, ?, ?)').run(
        a.id,
        a.athleteId,
        a.externalId,
        a.name,
        a.sportType,
        a.startDate,
        a.distanceM,
      );
    else if (response.status === 404) db.prepare('DELETE FROM activity WHERE id = ?').run(id);
    else throw new Error(`Activity ${id} cannot be read: ${response.status}`);
  };

  /** Begins with an empty table, or again when the cursor has expired: everything once, then what changed since. */
  const readAll = async (): Promise<string> => {
    const { data: feed } = await api.GET('/api/v1/changes', { params: { query: { after: 'latest' } } });
    if (!feed) throw new Error('The feed cannot be read.');
    db.exec('DELETE FROM activity');
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const query = cursor === undefined ? { limit: 200 } : { limit: 200, cursor };
      const { data: page } = await api.GET('/api/v1/activities', { params: { query } });
      if (!page) throw new Error('The activities cannot be read.');
      for (const { id } of page.activities) await store(id);
      cursor = page.nextCursor;
    }
    set('cursor', feed.nextCursor);
    return feed.nextCursor;
  };

  /** Reads the feed behind the last change that was handled. The cursor moves on after its change: a crash repeats one. */
  const catchUp = async (): Promise<void> => {
    for (let after = setting('cursor') ?? (await readAll()); ; ) {
      const { data: page, response } = await api.GET('/api/v1/changes', { params: { query: { after, limit: 1000 } } });
      if (response.status === 410) after = await readAll();
      else if (!page) throw new Error(`The feed cannot be read: ${response.status}`);
      else if (page.changes.length === 0) return void set('cursor', page.nextCursor);
      for (const { cursor, type, activityId, athleteId } of page?.changes ?? []) {
        if (type === 'athlete.disconnected') db.prepare('DELETE FROM activity WHERE athlete = ?').run(athleteId);
        else if (activityId !== null) await store(activityId);
        set('cursor', cursor);
        after = cursor;
      }
    }
  };
  // One at a time. A webhook only says that there is news; the feed says what, in order and without a gap.
  let line = Promise.resolve();
  const sync = (): Promise<void> => {
    const turn = line.then(catchUp);
    line = turn.catch((error: Error) => console.error(`${error.message} It is tried again.`));
    return turn;
  };

  const answer = async (request: IncomingMessage): Promise<[status: number, body: string, location?: string]> => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://app');
    if (request.method === 'POST' && pathname === '/hook') {
      const body = Buffer.concat(await request.toArray()).toString();
      new Webhook(setting('secret') ?? '').verify(body, request.headers as Record<string, string>);
      await sync();
      return [204, ''];
    }
    if (pathname === '/connect') {
      const body = { externalId: searchParams.get('user') ?? 'somebody', returnUrl: `${url}/connected` };
      const { data: link, error } = await api.POST('/api/v1/connect-links', { body });
      return link ? [302, '', link.url] : [502, error.detail];
    }
    if (pathname === '/connected')
      return [200, `You are ${searchParams.get('status')}. Your activities are at ${url}/`];
    return [200, JSON.stringify(activities(), null, 2)];
  };
  const activities = () => db.prepare('SELECT * FROM activity ORDER BY start DESC, id DESC').all();

  const server = createServer((request, response) => {
    answer(request).then(
      ([status, body, location]) => response.writeHead(status, location ? { location } : {}).end(body),
      (error: Error) => response.writeHead(error instanceof WebhookVerificationError ? 401 : 503).end(error.message),
    );
  });
  await new Promise<void>((resolve) => {
    server.listen(options.port, resolve);
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  if (setting('hook') !== url) {
    const { data: endpoint, error } = await api.POST('/api/v1/endpoints', { body: { url: `${url}/hook` } });
    if (!endpoint) throw new Error(error.detail);
    set('secret', endpoint.secret);
    set('hook', url);
  }
  const look = () => sync().catch(() => undefined);
  await look();
  const timer = setInterval(look, LOOK_AGAIN_MS);
  return {
    url,
    activities,
    stop: async () => {
      clearInterval(timer);
      await new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      });
      await line;
      db.close();
    },
  };
}

if (import.meta.main) {
  const {
    ACTIVITY_SYNC_URL = 'http://localhost:3000',
    ACTIVITY_SYNC_TOKEN = '',
    PORT = '4000',
    FILE = 'app.db',
  } = process.env;
  const app = await startApp({
    service: ACTIVITY_SYNC_URL,
    token: ACTIVITY_SYNC_TOKEN,
    port: Number(PORT),
    file: FILE,
  });
  console.log(`The application is at ${app.url}/; connect a user at ${app.url}/connect?user=ada`);
}
