import { ENCRYPTION_KEY } from './seed-jobs.ts';

/** The environment of a service process under measurement: production's defaults except for what is given. */
export function serviceEnvironment(databaseUrl: string, port: number, overrides: Record<string, string>) {
  return {
    NODE_ENV: 'production',
    DATABASE_URL: databaseUrl,
    PORT: String(port),
    TOKEN_ENCRYPTION_KEY: ENCRYPTION_KEY,
    PROVIDER_CLIENT_ID: 'simulator-client',
    PROVIDER_CLIENT_SECRET: 'simulator-secret',
    PROVIDER_VERIFY_TOKEN: 'verify-token-of-the-benchmark',
    NEXT_PUBLIC_BASE_URL: 'http://127.0.0.1:1',
    ADMIN_TOKEN: 'admin-token-of-the-benchmark',
    ...overrides,
  };
}
