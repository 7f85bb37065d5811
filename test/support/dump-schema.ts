import { writeFile } from 'node:fs/promises';
import { openDatabase } from '../../src/infra/database.ts';
import { createTestDatabase } from './database.ts';
import { describeSchema } from './describe-schema.ts';
import { ADMIN_URL_VARIABLE, RUN_ID_VARIABLE, startServerForTests } from './server-for-tests.ts';

/** What `npm run schema:dump` runs: migrates an empty database and writes its schema to sql/schema.sql. */

const server = await startServerForTests();
try {
  process.env[ADMIN_URL_VARIABLE] = server.adminUrl;
  process.env[RUN_ID_VARIABLE] = server.runId;
  const { url } = await createTestDatabase();
  const database = openDatabase({
    connectionString: url,
    maxConnections: 1,
    applicationName: 'schema dump',
    onError: (error) => process.stderr.write(`${error.message}\n`),
  });
  await writeFile(new URL('../../sql/schema.sql', import.meta.url), await describeSchema(database));
  await database.close();
} finally {
  await server.stop();
}
