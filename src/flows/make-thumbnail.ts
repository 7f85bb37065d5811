import type { PgBoss } from 'pg-boss';
import { decodeRoute } from '../domain/geo/decode-route.ts';
import type { Database } from '../infra/database.ts';
import { notify } from '../infra/notify.ts';
import { completeThumbnail, failThumbnail, type ThumbnailRun } from '../queue/thumbnail-queue.ts';
import { recordChanges } from '../store/changes.ts';
import { type DrawnActivity, findRoute, saveThumbnail } from '../store/thumbnails.ts';
import { renderThumbnail } from '../thumbnail/render-thumbnail.ts';
import type { TileSource } from '../thumbnail/tile-source.ts';

export interface ThumbnailDependencies {
  database: Database;
  boss: PgBoss;
  sizePx: number;
  debug: boolean;
  map: TileSource | undefined;
}

/** The result of a thumbnail job. */
export interface MadeThumbnail {
  /** 'withoutMap': stored, but no tile of its map came; 'superseded': the activity was removed or stored again. */
  result: 'rendered' | 'withoutMap' | 'superseded';
  /** Why tiles are missing on the picture, for the log. */
  mapProblem: string | undefined;
}

/**
 * Draws an activity's picture and stores it together with the job's completion. If tiles are missing that
 * may be available later, it stores what it has and the job's failure: pg-boss retries the drawing.
 * @throws ClaimLostError when the claim was lost
 */
export async function makeThumbnail(
  deps: ThumbnailDependencies,
  run: ThumbnailRun,
  signal: AbortSignal,
): Promise<MadeThumbnail> {
  const activity = await findRoute(deps.database, run.activityId);
  const picture = activity && (await drawPicture(deps, activity, signal));
  const { reason: mapProblem, mayComeLater } = picture?.mapProblem ?? {};
  return deps.database.transaction(async (tx) => {
    const { activityId } = run;
    // The activity first and the job after it, as an erasure takes them.
    const stored =
      activity && picture
        ? await saveThumbnail(tx, { activityId, fetchedAt: activity.fetched_at, sizePx: deps.sizePx, ...picture })
        : false;
    if (mapProblem !== undefined && mayComeLater) await failThumbnail(deps.boss, tx, run, mapProblem);
    else await completeThumbnail(deps.boss, tx, run);
    if (!activity || !picture || !stored) return { result: 'superseded', mapProblem };
    await recordChanges(tx, [{ type: 'activity.thumbnail', athleteId: activity.athlete_id, activityId }]);
    await notify(tx, 'activity', activityId);
    return { result: mapProblem !== undefined && picture.drawnTiles === 0 ? 'withoutMap' : 'rendered', mapProblem };
  });
}

function drawPicture(deps: ThumbnailDependencies, activity: DrawnActivity, signal: AbortSignal) {
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
