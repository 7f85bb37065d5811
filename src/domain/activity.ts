import type { Int64 } from './int64.ts';

/** A stored activity. Distances in metres, times in seconds. */
export interface Activity {
  activityId: Int64;
  athleteId: Int64;
  name: string;
  sportType: string;
  startDate: string;
  timezone: string | undefined;
  distanceM: number;
  movingTimeS: number;
  elapsedTimeS: number;
  elevationGainM: number;
  private: boolean;
}
