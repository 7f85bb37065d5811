import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';
import { ROUTE } from './activities.ts';
import { NOT_HIDDEN } from './athletes.ts';

/**
 * Stores an activity's picture, unless the activity was removed or stored again; in the latter case its picture has
 * been requested again too.
 * @param thumbnail.fetchedAt of the activity that was drawn
 * @returns whether it was stored
 */
export async function saveThumbnail(
  tx: Queryable,
  thumbnail: { activityId: Int64; fetchedAt: string; png: Buffer; etag: string; sizePx: number },
): Promise<boolean> {
  const rows = await tx.query(
    `INSERT INTO thumbnail (activity_id, png, etag, size_px, rendered_at)
     SELECT activity_id, $2, $3, $4, sync_now() FROM activity WHERE activity_id = $1 AND fetched_at = $5::text::timestamptz FOR KEY SHARE
     ON CONFLICT (activity_id) DO UPDATE SET png = excluded.png, etag = excluded.etag, size_px = excluded.size_px, rendered_at = excluded.rendered_at
     RETURNING activity_id`,
    [thumbnail.activityId, thumbnail.png, thumbnail.etag, thumbnail.sizePx, thumbnail.fetchedAt],
  );
  return rows.length === 1;
}

export async function findThumbnail(
  database: Queryable,
  activityId: Int64,
): Promise<{ png: Buffer; etag: string } | undefined> {
  const rows = await database.query<{ png: Buffer; etag: string }>(
    `SELECT t.png, t.etag FROM thumbnail t JOIN activity a USING (activity_id) WHERE t.activity_id = $1 AND ${NOT_HIDDEN}`,
    [activityId],
  );
  return rows[0];
}

/** What an activity's picture shows, and when the activity was fetched, to the microsecond. */
export interface DrawnActivity {
  athlete_id: Int64;
  polyline: string | null;
  sport_type: string;
  fetched_at: string;
}

/** What a thumbnail is drawn from; undefined when the activity no longer exists. */
export async function findRoute(database: Queryable, activityId: Int64): Promise<DrawnActivity | undefined> {
  const rows = await database.query<DrawnActivity>(
    `SELECT athlete_id, ${ROUTE} AS polyline, sport_type, fetched_at::text AS fetched_at FROM activity WHERE activity_id = $1`,
    [activityId],
  );
  return rows[0];
}
