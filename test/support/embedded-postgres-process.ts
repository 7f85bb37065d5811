import { startEmbeddedPostgres } from '../../src/infra/embedded-postgres.ts';

/**
 * A service in miniature, run as a process of its own: starts the embedded PostgreSQL of the folder given
 * as its argument, tells its parent, and then does what the parent sends: `stop`, or `exit` without stopping.
 */
const postgres = await startEmbeddedPostgres({
  dataDir: process.argv[2] ?? '',
  log: () => undefined,
  postgresFlags: ['-c', 'fsync=off'],
});
process.on('message', (message) => {
  if (message === 'exit') process.exit(0);
  void postgres.stop().then(() => process.disconnect());
});
process.send?.({ connectionString: postgres.connectionString, pid: postgres.pid });
