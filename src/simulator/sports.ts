/** What a simulated athlete does, and at what pace. */
export interface Sport {
  sportType: string;
  /** The older, coarser field of the API. */
  type: string;
  noun: string;
  metresPerSecond: number;
  /** Size of the route around the start. */
  radiusMetres: number;
  climbPerKilometre: number;
}

export const sports: readonly Sport[] = [
  sport('Run', 'Run', 'Run', 2.9, 1_300, 6),
  sport('Ride', 'Ride', 'Ride', 7.2, 5_500, 9),
  sport('Walk', 'Walk', 'Walk', 1.4, 700, 5),
  sport('TrailRun', 'Run', 'Trail Run', 2.4, 1_800, 28),
  sport('GravelRide', 'Ride', 'Gravel Ride', 6.1, 6_500, 14),
  sport('Hike', 'Hike', 'Hike', 1.2, 2_000, 45),
];

/** The sport of that name; an unknown one moves like a run, since the provider's list grows. */
export function sportNamed(sportType: string): Sport {
  return sports.find((known) => known.sportType === sportType) ?? sport(sportType, 'Workout', sportType, 2.5, 1_300, 6);
}

function sport(
  sportType: string,
  type: string,
  noun: string,
  metresPerSecond: number,
  radiusMetres: number,
  climbPerKilometre: number,
): Sport {
  return { sportType, type, noun, metresPerSecond, radiusMetres, climbPerKilometre };
}
