import type { PgBoss } from 'pg-boss';
import { decodeRoute } from '../domain/geo/decode-route.ts';
import type { Database } from '../infra/database.ts';
import { completeThumbnail, type ThumbnailRun } from '../queue/thumbnail-queue.ts';
import { findRoute, saveThumbnail } from '../store/thumbnails.ts';
import { renderThumbnail } from '../thumbnail/render-thumbnail.ts';
import type { TileSource } from '../thumbnail/tile-source.ts';

export interface ThumbnailDependencies {
  database: Database;
  boss: PgBoss;
  sizePx: number;
  debug: boolean;
  map: TileSource | undefined;
}

/**
 * Draws an activity's picture and stores it together with the job's completion.
 * @returns 'superseded' when the activity has gone meanwhile
 * @throws SupersededError when the claim was lost
 */
export async function makeThumbnail(
  deps: ThumbnailDependencies,
  run: ThumbnailRun,
  signal: AbortSignal,
): Promise<'rendered' | 'superseded'> {
  const activity = await findRoute(deps.database, run.activityId);
  const picture = activity && (await drawPicture(deps, activity, signal));
  return deps.database.transaction(async (tx) => {
    await completeThumbnail(deps.boss, tx, run);
    if (!picture) return 'superseded';
    const stored = await saveThumbnail(tx, { activityId: run.activityId, sizePx: deps.sizePx, ...picture });
    if (stored) await tx.query(`SELECT pg_notify('activity_sync', 'activity:' || $1)`, [run.activityId]);
    return stored ? 'rendered' : 'superseded';
  });
}

function drawPicture(
  deps: ThumbnailDependencies,
  activity: { polyline: string | null; sport_type: string },
  signal: AbortSignal,
) {
  const route = activity.polyline === null ? [] : decodeRoute(activity.polyline);
  return renderThumbnail({
    route,
    label: { sportType: activity.sport_type },
    sizePx: deps.sizePx,
    debug: deps.debug,
    map: deps.map,
    signal,
  });
}
