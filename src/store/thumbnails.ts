import type { Int64 } from '../domain/int64.ts';
import type { Queryable } from '../infra/database.ts';

/** Stores an activity's picture, unless the activity has gone meanwhile. @returns whether it was stored */
export async function saveThumbnail(
  tx: Queryable,
  thumbnail: { activityId: Int64; png: Buffer; etag: string; sizePx: number },
): Promise<boolean> {
  const rows = await tx.query(
    `INSERT INTO thumbnail (activity_id, png, etag, size_px, rendered_at)
     SELECT activity_id, $2, $3, $4, sync_now() FROM activity WHERE activity_id = $1 FOR KEY SHARE
     ON CONFLICT (activity_id) DO UPDATE SET png = excluded.png, etag = excluded.etag, size_px = excluded.size_px, rendered_at = excluded.rendered_at
     RETURNING activity_id`,
    [thumbnail.activityId, thumbnail.png, thumbnail.etag, thumbnail.sizePx],
  );
  return rows.length === 1;
}

export async function findThumbnail(
  database: Queryable,
  activityId: Int64,
): Promise<{ png: Buffer; etag: string } | undefined> {
  const rows = await database.query<{ png: Buffer; etag: string }>(
    'SELECT png, etag FROM thumbnail WHERE activity_id = $1',
    [activityId],
  );
  return rows[0];
}

/** What a thumbnail is drawn from; undefined when the activity has gone. */
export async function findRoute(
  database: Queryable,
  activityId: Int64,
): Promise<{ polyline: string | null; sport_type: string } | undefined> {
  const rows = await database.query<{ polyline: string | null; sport_type: string }>(
    'SELECT route_of(detail) AS polyline, sport_type FROM activity WHERE activity_id = $1',
    [activityId],
  );
  return rows[0];
}
