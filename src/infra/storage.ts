import { join } from 'node:path';
import type { Config } from './config.ts';
import { startEmbeddedPostgres } from './embedded-postgres.ts';
import { keepSecret, readKeptSecret } from './kept-secret.ts';
import type { Logger } from './logger.ts';

/** Where the service keeps its data, and the keys that encrypt tokens there. */
export interface Storage {
  connectionString: string;
  /** The address with which migrations run. */
  migrationUrl: string;
  encryptionKeys: readonly string[];
  close(): Promise<void>;
}

/**
 * Opens the configured database server, or starts an embedded one under DATA_DIR. With an embedded one
 * an encryption key is generated and kept when none is configured; it keeps decrypting what it has sealed.
 * @param onDatabaseEnd is called when the embedded server ends unexpectedly
 */
export async function openStorage(
  config: Pick<Config, 'DATABASE_URL' | 'DATA_DIR' | 'TOKEN_ENCRYPTION_KEY' | 'MIGRATE_DATABASE_URL'>,
  logger: Logger,
  onDatabaseEnd?: (error: Error) => void,
): Promise<Storage> {
  const configuredKeys = config.TOKEN_ENCRYPTION_KEY?.split(',');
  if (config.DATABASE_URL !== undefined) {
    return {
      connectionString: config.DATABASE_URL,
      migrationUrl: config.MIGRATE_DATABASE_URL ?? config.DATABASE_URL,
      encryptionKeys: configuredKeys ?? [],
      close: async () => undefined,
    };
  }
  const embedded = await startEmbeddedPostgres({
    dataDir: config.DATA_DIR,
    log: (level, message) => logger.log(level, message, { component: 'postgres' }),
    ...(onDatabaseEnd ? { onUnexpectedEnd: onDatabaseEnd } : {}),
  });
  const keyFile = join(config.DATA_DIR, 'token-encryption.key');
  // What a generated key has sealed must still decrypt after another key was configured.
  const keptKey = configuredKeys ? await readKeptSecret(keyFile) : await keepSecret(keyFile);
  return {
    connectionString: embedded.connectionString,
    migrationUrl: embedded.connectionString,
    encryptionKeys: [...(configuredKeys ?? []), ...(keptKey === undefined ? [] : [keptKey])],
    close: () => embedded.stop(),
  };
}
