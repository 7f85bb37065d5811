import type { Activity } from '../domain/activity.ts';
import type { ActivitySummary } from '../provider/schemas.ts';
import type { Run } from '../queue/claim.ts';

/** The provider's answer, of a list or with the details, as the service stores it. Distances in metres, times in whole seconds. */
export function toActivity(run: Pick<Run, 'activityId' | 'athleteId'>, detail: ActivitySummary): Activity {
  return {
    activityId: run.activityId,
    athleteId: run.athleteId,
    name: detail.name,
    sportType: detail.sport_type ?? detail.type ?? 'Unknown',
    startDate: detail.start_date,
    timezone: detail.timezone,
    distanceM: detail.distance,
    movingTimeS: Math.round(detail.moving_time),
    elapsedTimeS: Math.round(detail.elapsed_time),
    elevationGainM: detail.total_elevation_gain,
    private: detail.private,
  };
}
