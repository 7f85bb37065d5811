import { readFile } from 'node:fs/promises';
import pg from 'pg';

/** Fills an empty database with one that release 0.1 left behind: its schema, pg-boss's, and a few rows. */
export async function restoreDatabase01(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(await readFile(new URL('../fixtures/database-0.1.sql', import.meta.url), 'utf8'));
  } finally {
    await client.end();
  }
}
