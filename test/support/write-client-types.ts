import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startService } from '../../src/compose.ts';
import { readConfig } from '../../src/infra/config.ts';
import { removeEmbeddedPostgres } from '../../src/infra/embedded-postgres.ts';
import { createSilentLogger } from '../../src/infra/logger.ts';
import { migrate } from '../../src/infra/migrate.ts';
import { openStorage } from '../../src/infra/storage.ts';
import { testEnvironment } from './service.ts';

/** The types of the application's interface, as the example's client has them. */
export const CLIENT_TYPES = new URL('../../examples/app/activity-sync-api.d.ts', import.meta.url);

// openapi-typescript needs the API of TypeScript 5, which the project's own TypeScript no longer has.
const TOOL = ['--yes', '--package=openapi-typescript@7.13.0', '--package=typescript@5.9.3', '--', 'openapi-typescript'];

type Document = { paths: Record<string, unknown>; servers: unknown };

/** The part of an OpenAPI document that is for applications: what the types are made from. */
export function applicationPart(document: Document): string {
  const paths = Object.fromEntries(Object.entries(document.paths).filter(([path]) => path.startsWith('/api/v1/')));
  return JSON.stringify({ ...document, servers: [], paths });
}

/** The first line of the file of types: from which document they were made. */
export function headOf(part: string): string {
  const digest = createHash('sha256').update(part).digest('hex').slice(0, 16);
  return `// Written by npm run client:types from the OpenAPI document ${digest}.\n`;
}

async function writeClientTypes(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'activity-sync-types-'));
  await chmod(folder, 0o755); // as root, PostgreSQL runs under another account, which must reach it
  const config = readConfig(testEnvironment('http://127.0.0.1:1', { DATA_DIR: folder, SERVICE_ROLES: 'web' }));
  const logger = createSilentLogger();
  const storage = await openStorage(config, logger);
  try {
    await migrate({ connectionString: storage.connectionString, logger });
    const service = await startService({ config, logger, ...storage });
    const part = applicationPart((await (await fetch(`${service.url}/api/openapi.json`)).json()) as Document);
    await service.stop();
    const source = join(folder, 'openapi.json');
    const target = join(folder, 'types.d.ts');
    await writeFile(source, part);
    await promisify(execFile)('npm', ['exec', ...TOOL, source, '--output', target]);
    await writeFile(CLIENT_TYPES, headOf(part) + (await readFile(target, 'utf8')));
  } finally {
    await storage.close();
    await removeEmbeddedPostgres({ dataDir: folder, log: () => undefined });
    await rm(folder, { recursive: true, force: true });
  }
}

if (import.meta.main) await writeClientTypes();
