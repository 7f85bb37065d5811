import type { PgBoss } from 'pg-boss';
import { BOSS_SCHEMA_VERSION } from '../boss.ts';
import type { Queryable } from '../database.ts';
import type { Logger } from '../logger.ts';
import { MigrationError } from './migration-error.ts';
import { isNewer, type Migration, type Release, readFunctions, readMigrations } from './release.ts';
import { isOfRelease01, RELEASE_0_1_MIGRATIONS } from './release-0.1.ts';

/** How the database's schema differs from the release's. */
export interface SchemaDifference {
  /** Migrations of the release that the database lacks. */
  missing: Migration[];
  /** Migrations of a newer release, all of which let this one serve. */
  newer: string[];
  /** Whether release 0.1 made the database, so that the baseline is reached by an upgrade. */
  isOfRelease01: boolean;
  /** Whether only `migrate` can make pg-boss's schema what this release needs. */
  bossIsBehind: boolean;
}

interface AppliedMigration {
  name: string;
  checksum: string | null;
  compatible: boolean;
}

/**
 * Compares what was applied to the database with what the release has. Reads only.
 * @throws MigrationError where the release must not run: an applied migration was edited, or a newer release
 * made a schema that this one cannot serve with
 */
export async function compareSchema(database: Queryable, boss: PgBoss, release: Release): Promise<SchemaDifference> {
  const difference = await compareMigrations(database, release);
  const bossVersion = (await boss.isInstalled()) ? ((await boss.schemaVersion()) ?? 0) : 0;
  if (
    bossVersion > BOSS_SCHEMA_VERSION &&
    !difference.newer.some((name) => name.includes(`-pg-boss-${bossVersion}.`))
  ) {
    throw new MigrationError(
      `pg-boss's schema has version ${bossVersion}; release ${release.version} knows version ${BOSS_SCHEMA_VERSION}, and no migration declares the newer one compatible. Start the release that upgraded it.`,
    );
  }
  return { ...difference, bossIsBehind: bossVersion < BOSS_SCHEMA_VERSION };
}

/** The part of the comparison that may change while a process runs. @throws MigrationError as compareSchema */
async function compareMigrations(
  database: Queryable,
  release: Release,
): Promise<Omit<SchemaDifference, 'bossIsBehind'>> {
  const applied = await readApplied(database);
  const migrations = await readMigrations(release);
  const known = new Map(migrations.map((migration) => [migration.name, migration]));
  const edited = applied.filter(({ name, checksum }) => known.has(name) && known.get(name)?.checksum !== checksum);
  if (edited.length > 0) {
    throw new MigrationError(
      `Applied migrations were edited: ${listNames(edited)}. Restore the files as they were applied, and make the change in a new migration.`,
    );
  }
  const newer = applied.filter(({ name }) => !known.has(name) && !RELEASE_0_1_MIGRATIONS.includes(name));
  const missing = migrations.filter(({ name }) => !applied.some((row) => row.name === name));
  const breaking = missing.length > 0 ? newer : newer.filter(({ compatible }) => !compatible);
  if (breaking.length > 0) {
    throw new MigrationError(
      `The database was migrated by a newer release (it has ${listNames(breaking)}), and release ${release.version} cannot serve with its schema. Start the newer release, or restore a backup.`,
    );
  }
  return {
    missing,
    newer: newer.map(({ name }) => name),
    isOfRelease01: isOfRelease01(applied.map(({ name }) => name)),
  };
}

/**
 * What a start requires of the schema; changes nothing. A schema of a newer release that lets this one serve is
 * used unchanged.
 * @throws MigrationError naming what the database lacks, or why this release cannot serve with it
 */
export async function checkSchema(options: {
  database: Queryable;
  boss: PgBoss;
  release: Release;
  logger: Logger;
}): Promise<void> {
  const { database, boss, release, logger } = options;
  const { missing, newer, bossIsBehind } = await compareSchema(database, boss, release);
  const lacks = [
    ...missing.map(({ name }) => name),
    ...(bossIsBehind ? [`version ${BOSS_SCHEMA_VERSION} of pg-boss's schema`] : []),
    ...((await areFunctionsCurrent(database, release)) ? [] : [`the functions of release ${release.version}`]),
  ];
  if (lacks.length > 0) {
    throw new MigrationError(
      `The database lacks ${lacks.join(', ')}. Run "npm run migrate" first, or set MIGRATE_ON_START=true.`,
    );
  }
  if (newer.length > 0) {
    logger.info('schema of a newer release in use', { component: 'migrate', migrations: newer.join(', ') });
  }
}

/** Why a running process cannot continue with the schema; undefined when it can. */
export async function findSchemaProblem(database: Queryable, release: Release): Promise<string | undefined> {
  try {
    return (await compareMigrations(database, release)).missing.length > 0 ? 'not migrated' : undefined;
  } catch (error) {
    if (error instanceof MigrationError) return error.message;
    throw error;
  }
}

/** Whether the database has the release's functions, or those of a newer one. False where it was never migrated. */
export async function areFunctionsCurrent(database: Queryable, release: Release): Promise<boolean> {
  if (!(await hasTable(database, 'schema_functions'))) return false;
  const [row] = await database.query<{ release: string; checksum: string }>(
    'SELECT release, checksum FROM public.schema_functions',
  );
  if (row === undefined) return false;
  const { checksum } = await readFunctions(release);
  return isNewer(row.release, release.version) || (row.release === release.version && row.checksum === checksum);
}

/** In the order of their names; none where the database was never migrated. A table of release 0.1 knows names only. */
export async function readApplied(database: Queryable): Promise<AppliedMigration[]> {
  if (!(await hasTable(database, 'schema_migration'))) return [];
  return database.query<AppliedMigration>(
    `SELECT name, to_jsonb(m) ->> 'checksum' AS checksum, coalesce((to_jsonb(m) ->> 'compatible')::boolean, false) AS compatible
     FROM public.schema_migration m ORDER BY name`,
  );
}

async function hasTable(database: Queryable, name: string): Promise<boolean> {
  const [found] = await database.query<{ yes: boolean }>('SELECT to_regclass($1) IS NOT NULL AS yes', [
    `public.${name}`,
  ]);
  return found?.yes ?? false;
}

function listNames(rows: readonly { name: string }[]): string {
  return rows.map(({ name }) => name).join(', ');
}
