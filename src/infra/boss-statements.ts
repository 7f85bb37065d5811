import type { Db, PgBoss } from 'pg-boss';
import { FETCH_QUEUE, THUMBNAIL_QUEUE } from './boss.ts';
import type { Queryable } from './database.ts';

const ANY_ID = '00000000-0000-0000-0000-000000000000';

/**
 * Keeps the statements that pg-boss runs for some of its calls as functions in the database, so that
 * ours can run them within one round trip, planned once. The text is the installed pg-boss's own, asked
 * of its public interface; it is written anew at every migration, and so follows every upgrade.
 */
export async function installBossStatements(boss: PgBoss, database: Queryable): Promise<void> {
  const fetch = await statementOf((db) =>
    boss.fetch(FETCH_QUEUE, { batchSize: 1, minPriority: 0, maxPriority: 0, includeMetadata: true, db }),
  );
  const complete = await statementOf((db) => boss.complete(FETCH_QUEUE, { id: ANY_ID, retryCount: 0 }, null, { db }));
  const update = await statementOf((db) => boss.update(FETCH_QUEUE, undefined, { id: ANY_ID, priority: 0, db }));
  const remove = await statementOf((db) => boss.deleteJob(FETCH_QUEUE, ANY_ID, { db }));
  const insertFetch = await statementOf((db) => boss.insert(FETCH_QUEUE, [], { db }));
  const insertThumbnail = await statementOf((db) => boss.insert(THUMBNAIL_QUEUE, [], { db }));
  const functions = [
    functionOf(
      'boss_fetch',
      'integer, integer, OUT o_id uuid, OUT o_activity_id bigint, OUT o_retry_count integer, OUT o_retry_limit integer, OUT o_start_after timestamptz',
      `${fetch} INTO v_row;
  o_id := v_row.id; o_activity_id := v_row."singletonKey"; o_retry_count := v_row."retryCount";
  o_retry_limit := v_row."retryLimit"; o_start_after := v_row."startAfter"`,
    ),
    functionOf(
      'boss_complete',
      'text, uuid[], jsonb, text[], OUT o_ids uuid[]',
      `${complete} INTO v_row;\n  o_ids := v_row.ids`,
    ),
    functionOf('boss_update_fetch', 'text, OUT o_id uuid', `${update} INTO v_row;\n  o_id := v_row.id`),
    functionOf('boss_delete', 'text, uuid[], OUT o_ids uuid[]', `${remove} INTO v_row;\n  o_ids := v_row.ids`),
    functionOf('boss_insert_fetch', 'text, OUT o_sent boolean', `${insertFetch};\n  o_sent := true`),
    functionOf('boss_insert_thumbnail', 'text, OUT o_sent boolean', `${insertThumbnail};\n  o_sent := true`),
  ];
  for (const text of functions) await database.query(text);
}

function functionOf(name: string, signature: string, body: string): string {
  return `CREATE OR REPLACE FUNCTION ${name}(${signature}) LANGUAGE plpgsql VOLATILE AS $boss$
#variable_conflict use_column
DECLARE
  v_row record;
BEGIN
  ${body};
END
$boss$`;
}

/** The one statement of a call that is made with the `db` given to it; nothing is run. */
async function statementOf(call: (db: Db) => Promise<unknown>): Promise<string> {
  const texts: string[] = [];
  await call({
    executeSql: async (text) => {
      texts.push(text);
      return { rows: [{ count: '0' }] }; // what a command that changed nothing answers
    },
  });
  const [text] = texts;
  if (text === undefined || texts.length > 1) {
    throw new Error(`pg-boss ran ${texts.length} statements where one was expected; this version of it does not fit.`);
  }
  return text;
}
