import { buildConsole } from '../../src/console/bundle.ts';
import { ADMIN_URL_VARIABLE, RUN_ID_VARIABLE, type ServerForTests, startServerForTests } from './server-for-tests.ts';
import { warmCompileCache } from './warm-compile-cache.ts';

declare global {
  var serverForTests: ServerForTests | undefined;
}

/** Jest's global setup: starts the database server and tells the workers, which inherit the environment. */
// biome-ignore lint/style/noDefaultExport: Jest takes the default export
export default async function setUp(): Promise<void> {
  const server = await startServerForTests();
  globalThis.serverForTests = server;
  process.env[ADMIN_URL_VARIABLE] = server.adminUrl;
  process.env[RUN_ID_VARIABLE] = server.runId;
  // Jest skips the global teardown when it is interrupted. A signal often comes twice: from the terminal
  // and from the parent process.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      void server.stop().finally(() => process.exit(130));
    });
  }
  try {
    await buildConsole(); // once, not in each process that the tests start
    await warmCompileCache();
  } catch (error) {
    await server.stop(); // Jest skips the teardown then too
    throw error;
  }
}
