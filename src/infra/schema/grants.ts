import pg from 'pg';
import type { Database } from '../database.ts';

/** The role that an address connects as. */
export function roleOf(connectionString: string): string {
  return new pg.Client({ connectionString }).user ?? '';
}

/** Who owns what this connection creates. */
export async function readOwner(database: Database): Promise<string> {
  const [row] = await database.query<{ owner: string }>('SELECT current_user AS owner');
  return row?.owner ?? '';
}

/**
 * Gives a role what the service needs at run time: to read and write every table, to call every function, and
 * nothing that changes the schema. Tables are made by `migrate` alone, so each run of it grants what is new.
 */
export async function grantRuntimeRights(database: Database, role: string): Promise<void> {
  const grantee = pg.escapeIdentifier(role);
  await database.transaction(async (tx) => {
    await tx.query(`GRANT USAGE ON SCHEMA public, pgboss TO ${grantee}`);
    await tx.query(`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public, pgboss TO ${grantee}`);
    await tx.query(`GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public, pgboss TO ${grantee}`);
    await tx.query(`GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public, pgboss TO ${grantee}`);
    await tx.query(`REVOKE INSERT, UPDATE, DELETE ON schema_migration, schema_functions FROM ${grantee}`);
  });
}
