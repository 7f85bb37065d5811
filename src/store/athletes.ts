import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';
import { notify } from '../infra/notify.ts';
import { recordChanges } from './changes.ts';

export type AthleteState = 'healthy' | 'reconnect' | 'scope';

/** Tokens as stored: encrypted. */
export interface SealedTokens {
  accessToken: string;
  refreshToken: string;
  expiresAt: Date;
}

/** Connects or reconnects an athlete; nothing stored about them changes. */
export async function saveAthlete(
  tx: Queryable,
  athlete: {
    athleteId: Int64;
    name: string;
    scope: string;
    state: AthleteState;
    stateDetail: string | undefined;
    /** The application's own id for this user; undefined leaves the one that is stored. */
    externalId?: string | undefined;
  } & SealedTokens,
): Promise<void> {
  await tx.query(
    `INSERT INTO athlete (athlete_id, name, access_token, refresh_token, token_expires_at, scope, state, state_detail, external_id)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
     ON CONFLICT (athlete_id) DO UPDATE SET name = coalesce(nullif(excluded.name, ''), athlete.name), access_token = excluded.access_token,
       refresh_token = excluded.refresh_token, token_expires_at = excluded.token_expires_at, scope = excluded.scope,
       state = excluded.state, state_detail = excluded.state_detail, hidden_since = NULL, connected_at = excluded.connected_at,
       external_id = coalesce(excluded.external_id, athlete.external_id), updated_at = sync_now()`,
    [
      athlete.athleteId,
      athlete.name,
      athlete.accessToken,
      athlete.refreshToken,
      athlete.expiresAt,
      athlete.scope,
      athlete.state,
      athlete.stateDetail ?? null,
      athlete.externalId ?? null,
    ],
  );
  const type = athlete.state === 'healthy' ? 'athlete.connected' : 'athlete.reconnect_required';
  await recordChanges(tx, [{ type, athleteId: athlete.athleteId }]);
}

/** Locks an athlete's row, where there is one, against erasure and reconnecting until the transaction ends. */
export async function lockAthlete(tx: Queryable, athleteId: Int64): Promise<void> {
  await tx.query('SELECT FROM athlete WHERE athlete_id = $1 FOR UPDATE', [athleteId]);
}

/** Reads an athlete's tokens, and when they last connected, as text; undefined when not connected. */
export async function findTokens(
  database: Queryable,
  athleteId: Int64,
): Promise<(SealedTokens & { state: AthleteState; connectedAt: string }) | undefined> {
  const [row] = await database.query<{
    access_token: string;
    refresh_token: string;
    token_expires_at: Date;
    state: AthleteState;
    connected_at: string;
  }>(
    'SELECT access_token, refresh_token, token_expires_at, state, connected_at::text FROM athlete WHERE athlete_id = $1',
    [athleteId],
  );
  return (
    row && {
      accessToken: row.access_token,
      refreshToken: row.refresh_token,
      expiresAt: row.token_expires_at,
      state: row.state,
      connectedAt: row.connected_at,
    }
  );
}

/** Whether the athlete connected, for the first time or again, after `at` (as text: exact to the microsecond). */
export async function hasConnectedSince(tx: Queryable, athleteId: Int64, at: Date | string): Promise<boolean> {
  const rows = await tx.query('SELECT FROM athlete WHERE athlete_id = $1 AND connected_at > $2', [athleteId, at]);
  return rows.length === 1;
}

/** Held until the transaction ends: one refresh at a time for each athlete, across replicas. */
export async function lockTokens(tx: Queryable, athleteId: Int64): Promise<void> {
  await tx.query(`SELECT pg_advisory_xact_lock(hashtextextended('activity-sync tokens of ' || $1, 0))`, [athleteId]);
}

export async function saveTokens(tx: Queryable, athleteId: Int64, tokens: SealedTokens): Promise<void> {
  await tx.query(
    `UPDATE athlete SET access_token = $2, refresh_token = $3, token_expires_at = $4, updated_at = sync_now() WHERE athlete_id = $1`,
    [athleteId, tokens.accessToken, tokens.refreshToken, tokens.expiresAt],
  );
}

/**
 * Saves the pair that replaced a spent refresh token, unless the athlete already has another one. An athlete
 * whose spent token caused the state reconnect is healthy again.
 * @param isSpent whether a stored pair is the one that was replaced, under whichever key
 * @returns whether the athlete was in that state
 */
export async function replaceTokens(
  tx: Queryable,
  athleteId: Int64,
  isSpent: (stored: { accessToken: string; refreshToken: string }) => boolean,
  tokens: SealedTokens,
): Promise<boolean> {
  const [stored] = await tx.query<{ accessToken: string; refreshToken: string; state: AthleteState }>(
    `SELECT access_token AS "accessToken", refresh_token AS "refreshToken", state FROM athlete WHERE athlete_id = $1 FOR UPDATE`,
    [athleteId],
  );
  if (!stored || !isSpent(stored)) return false;
  await tx.query(
    `UPDATE athlete SET access_token = $2, refresh_token = $3, token_expires_at = $4, updated_at = sync_now(),
       state = CASE WHEN state = 'reconnect' THEN 'healthy' ELSE state END,
       state_detail = CASE WHEN state = 'reconnect' THEN NULL ELSE state_detail END
     WHERE athlete_id = $1`,
    [athleteId, tokens.accessToken, tokens.refreshToken, tokens.expiresAt],
  );
  await notify(tx, 'athlete');
  if (stored.state === 'reconnect') await recordChanges(tx, [{ type: 'athlete.connected', athleteId }]);
  return stored.state === 'reconnect';
}

/** Athletes whose tokens are sealed with another key than the one of `prefix`, in order of their ids. */
export async function listTokensOfOtherKeys(
  database: Queryable,
  prefix: string,
  afterId: Int64,
  limit: number,
): Promise<{ athleteId: Int64; accessToken: string; refreshToken: string }[]> {
  return database.query(
    `SELECT athlete_id AS "athleteId", access_token AS "accessToken", refresh_token AS "refreshToken" FROM athlete
     WHERE athlete_id > $2 AND NOT (starts_with(access_token, $1) AND starts_with(refresh_token, $1))
     ORDER BY athlete_id LIMIT $3`,
    [prefix, afterId, limit],
  );
}

/** Replaces a pair by the same one under another key. @returns false when it was replaced in the meantime */
export async function resealTokens(
  database: Queryable,
  stored: { athleteId: Int64; accessToken: string; refreshToken: string },
  fresh: { accessToken: string; refreshToken: string },
): Promise<boolean> {
  const rows = await database.query(
    `UPDATE athlete SET access_token = $4, refresh_token = $5
     WHERE athlete_id = $1 AND access_token = $2 AND refresh_token = $3 RETURNING athlete_id`,
    [stored.athleteId, stored.accessToken, stored.refreshToken, fresh.accessToken, fresh.refreshToken],
  );
  return rows.length === 1;
}

/** Shows an athlete as needing attention, with the reason in words. */
export async function setAthleteState(
  tx: Queryable,
  athleteId: Int64,
  state: AthleteState,
  detail: string,
): Promise<void> {
  const changed = await tx.query(
    `UPDATE athlete SET state = $2, state_detail = $3, updated_at = sync_now() WHERE athlete_id = $1 AND state <> $2
     RETURNING athlete_id`,
    [athleteId, state, detail],
  );
  if (changed.length === 0) return;
  await notify(tx, 'athlete');
  if (state !== 'healthy') await recordChanges(tx, [{ type: 'athlete.reconnect_required', athleteId }]);
}

/** Hides an athlete's data until they reconnect or are erased. */
export async function hideAthlete(tx: Queryable, athleteId: Int64): Promise<void> {
  await tx.query('UPDATE athlete SET hidden_since = coalesce(hidden_since, sync_now()) WHERE athlete_id = $1', [
    athleteId,
  ]);
}

/** A condition on the athlete of an activity: their data is not hidden. */
export const NOT_HIDDEN = `NOT EXISTS (SELECT FROM athlete h WHERE h.athlete_id = a.athlete_id AND h.hidden_since IS NOT NULL)`;
