import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createTestDatabase } from './database.ts';
import { testEnvironment } from './service.ts';
import { freePort, startServiceProcess } from './service-process.ts';

const MARK = 'has-the-service';

/**
 * Starts and stops the service once as a process, which leaves its compiled code in the cache of
 * NODE_COMPILE_CACHE: most processes that the tests start are killed, and leave none. The others start from it,
 * in half the time.
 */
export async function warmCompileCache(): Promise<void> {
  const folder = process.env.NODE_COMPILE_CACHE;
  if (folder === undefined || existsSync(join(folder, MARK))) return;
  const database = await createTestDatabase();
  try {
    const env = testEnvironment('http://127.0.0.1:1', { DATABASE_URL: database.url, PORT: String(await freePort()) });
    const service = startServiceProcess(env);
    await service.ready();
    await service.end('SIGTERM');
    await writeFile(join(folder, MARK), '');
  } finally {
    await database.drop();
  }
}
