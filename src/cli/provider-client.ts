import { createSubscriptions, type Subscriptions } from '../flows/manage-subscriptions.ts';
import { readVariables } from '../infra/config.ts';
import { type Database, openDatabase, type Queryable } from '../infra/database.ts';
import { THIS_RELEASE } from '../infra/schema/release.ts';
import { createProvider, type Provider } from '../provider/client.ts';
import { createTransport } from '../provider/transport.ts';

/** The provider, called directly, without a running service. */
export interface DirectProvider {
  provider: Provider;
  subscriptions: Subscriptions;
  /** Where subscriptions are recorded; undefined when DATABASE_URL is unset or cannot be reached. */
  database: Database | undefined;
  close(): Promise<void>;
}

/**
 * Connects to the provider with the configured credentials. What is created, listed or deleted is
 * recorded in the database where it can be reached.
 * @throws ConfigError
 */
export async function openProvider(): Promise<DirectProvider> {
  const config = readVariables(
    ['PROVIDER_CLIENT_ID', 'PROVIDER_CLIENT_SECRET', 'PROVIDER_API_URL', 'FETCH_TIMEOUT_MS'],
    ['DATABASE_URL'],
  );
  const transport = createTransport({
    origin: config.PROVIDER_API_URL,
    timeoutMs: config.FETCH_TIMEOUT_MS,
    userAgent: `activity-sync/${THIS_RELEASE.version} command-line`,
    now: Date.now,
    observer: { call: () => undefined, usage: () => undefined },
  });
  const provider = createProvider(transport, {
    origin: config.PROVIDER_API_URL,
    clientId: config.PROVIDER_CLIENT_ID,
    clientSecret: config.PROVIDER_CLIENT_SECRET,
  });
  const database = await openIfReachable(config.DATABASE_URL);
  return {
    provider,
    subscriptions: createSubscriptions(database ?? NOWHERE, provider, {
      mustTrust: async () => undefined,
      refresh: () => undefined,
    }),
    database,
    close: async () => {
      transport.close();
      await database?.close();
    },
  };
}

const NOWHERE: Queryable = { query: async () => [], executeSql: async () => ({ rows: [] }) };

async function openIfReachable(connectionString: string | undefined): Promise<Database | undefined> {
  if (connectionString === undefined) return undefined;
  const database = openDatabase({
    connectionString,
    maxConnections: 2,
    applicationName: 'activity-sync command-line',
    onError: () => undefined, // the failing statement reports it
  });
  try {
    await database.query('SELECT FROM subscription LIMIT 0');
    return database;
  } catch (error) {
    await database.close();
    // Unreachable, not migrated, or not readable for us: the command works without it, and says so.
    if (typeof (error as { code?: unknown }).code === 'string') return undefined;
    throw error;
  }
}
