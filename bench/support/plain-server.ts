import type { AddressInfo } from 'node:net';
import express, { type RequestHandler } from 'express';
import pg from 'pg';
import { PgBoss } from 'pg-boss';
import { runsAsOtherSelf, startOtherSelf } from './child-process.ts';

/** What a plain server does with a delivery before it answers 200. */
export type PlainKind = 'nothing' | 'insert' | 'send';

/** Express with express.json in a process of its own: what intake is measured against. */
export interface PlainServer {
  port: number;
  stop(): Promise<void>;
}

export async function startPlainServer(kind: PlainKind, databaseUrl: string): Promise<PlainServer> {
  const other = startOtherSelf(import.meta.url, [kind, databaseUrl], { ...process.env, NODE_ENV: 'production' });
  const port = await other.nextMessage<number>();
  return { port, stop: () => other.stop() };
}

if (runsAsOtherSelf(import.meta.url)) {
  const [kind = 'nothing', databaseUrl = ''] = process.argv.slice(2);
  const app = express();
  app.use(express.json());
  app.post('/webhook', await handlerOf(kind as PlainKind, databaseUrl));
  const server = app.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
}

async function handlerOf(kind: PlainKind, databaseUrl: string): Promise<RequestHandler> {
  if (kind === 'insert') {
    const pool = new pg.Pool({ connectionString: databaseUrl, max: 10 });
    await pool.query('CREATE TABLE IF NOT EXISTS delivery (id bigserial PRIMARY KEY, body jsonb NOT NULL)');
    return async (request, response) => {
      await pool.query({ name: 'insert', text: 'INSERT INTO delivery (body) VALUES ($1)', values: [request.body] });
      response.json({ status: 'accepted' });
    };
  }
  if (kind === 'send') {
    const boss = new PgBoss({ connectionString: databaseUrl, supervise: false, schedule: false });
    await boss.start();
    await boss.createQueue('delivery', { partition: true, notify: true });
    return async (request, response) => {
      await boss.send('delivery', request.body);
      response.json({ status: 'accepted' });
    };
  }
  return (_request, response) => {
    response.json({ status: 'accepted' });
  };
}
