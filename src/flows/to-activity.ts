import type { ActivityDetail } from '../provider/schemas.ts';
import type { Run } from '../queue/claim.ts';
import type { Activity } from '../store/activities.ts';

/** The provider's answer as the service stores it. Distances in metres, times in whole seconds. */
export function toActivity(run: Pick<Run, 'activityId' | 'athleteId'>, detail: ActivityDetail): Activity {
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
