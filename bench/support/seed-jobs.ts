import { systemClock } from '../../src/domain/clock.ts';
import type { Reason } from '../../src/domain/job.ts';
import { createBoss } from '../../src/infra/boss.ts';
import type { Database } from '../../src/infra/database.ts';
import { createSilentLogger } from '../../src/infra/logger.ts';
import { createSecretBox } from '../../src/infra/secret-box.ts';
import { requestFetches } from '../../src/queue/requests.ts';
import type { BenchAthlete } from './simulator-process.ts';

export const ENCRYPTION_KEY = '0f'.repeat(32);
const BATCH = 1000;

/** Stores athletes as connected. */
export async function connectAthletes(database: Database, athletes: readonly BenchAthlete[]): Promise<void> {
  const secretBox = createSecretBox([ENCRYPTION_KEY]);
  const rows = athletes.map(({ athleteId, accessToken, refreshToken, expiresAt }) => ({
    athleteId,
    accessToken: secretBox.seal(accessToken),
    refreshToken: secretBox.seal(refreshToken),
    expiresAt,
  }));
  await database.query(
    `INSERT INTO athlete (athlete_id, access_token, refresh_token, token_expires_at, scope)
     SELECT "athleteId", "accessToken", "refreshToken", to_timestamp("expiresAt"), 'read,activity:read_all'
     FROM jsonb_to_recordset($1::text::jsonb) AS x ("athleteId" bigint, "accessToken" text, "refreshToken" text, "expiresAt" float8)`,
    [JSON.stringify(rows)],
  );
}

/**
 * Requests a fetch of every activity, alternating over the athletes. All jobs appear at once, in tables that are
 * analysed, as autovacuum does within a minute of so many changes.
 */
export async function requestAll(
  database: Database,
  athletes: readonly BenchAthlete[],
  reason: Reason,
): Promise<number> {
  const most = Math.max(...athletes.map(({ activityIds }) => activityIds.length));
  const requests = Array.from({ length: most }, (_, n) =>
    athletes.flatMap(({ athleteId, activityIds }) =>
      activityIds[n] === undefined ? [] : [{ athleteId, activityId: activityIds[n], reason, force: false }],
    ),
  ).flat();
  const boss = createBoss({
    database,
    clock: systemClock,
    logger: createSilentLogger(),
    migrate: false,
    supervise: false,
  });
  await database.transaction(async (tx) => {
    for (let from = 0; from < requests.length; from += BATCH)
      await requestFetches(boss, tx, requests.slice(from, from + BATCH));
    await tx.query('ANALYZE');
  });
  return requests.length;
}
