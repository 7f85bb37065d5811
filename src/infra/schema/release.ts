import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { MigrationError } from './migration-error.ts';

/** What a release of the service installs in the database. */
export interface Release {
  /** Its version, as in package.json: numbers separated by dots. */
  version: string;
  /** The folder with its migrations, functions and upgrades. */
  sql: URL;
}

/** One file of SQL. */
interface SqlFile {
  name: string;
  sql: string;
}

/** A file of sql/migrations. */
export interface Migration extends SqlFile {
  /** SHA-256 of its text, in hexadecimal digits. */
  checksum: string;
  /** Whether the previous release can serve with the resulting schema. */
  compatible: boolean;
}

const ROOT = new URL('../../../', import.meta.url);

/** The release whose code this is. */
export const THIS_RELEASE: Release = {
  version: JSON.parse(readFileSync(new URL('package.json', ROOT), 'utf8')).version,
  sql: new URL('sql/', ROOT),
};

/**
 * The release's migrations, in order.
 * @throws MigrationError for one whose first line does not say whether the previous release can serve with it
 */
export async function readMigrations(release: Release): Promise<Migration[]> {
  return (await readSqlFiles(release, 'migrations/')).map(({ name, sql }) => {
    const [, word] = /^-- (compatible|breaking): \S/.exec(sql) ?? [];
    if (word === undefined) {
      throw new MigrationError(
        `sql/migrations/${name} does not say whether the previous release can serve with it. Begin it with "-- compatible: <why>" or "-- breaking: <why>".`,
      );
    }
    return { name, sql, checksum: checksumOf(sql), compatible: word === 'compatible' };
  });
}

/** The release's functions, views and triggers, in order, and the checksum of all of them. */
export async function readFunctions(release: Release): Promise<{ files: SqlFile[]; checksum: string }> {
  const files = await readSqlFiles(release, 'functions/');
  return { files, checksum: checksumOf(files.map(({ sql }) => sql).join('\0')) };
}

/** Compares two versions by their numbers: 0.10.0 is newer than 0.9.1. */
export function isNewer(version: string, other: string): boolean {
  return version.localeCompare(other, 'en', { numeric: true }) > 0;
}

async function readSqlFiles(release: Release, folder: string): Promise<SqlFile[]> {
  const url = new URL(folder, release.sql);
  const names = (await readdir(url)).filter((name) => name.endsWith('.sql')).sort();
  return Promise.all(names.map(async (name) => ({ name, sql: await readFile(new URL(name, url), 'utf8') })));
}

function checksumOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
