import type { LatLng } from '../route.ts';
import { projectToWorld, unprojectFromWorld, type WorldPoint } from './web-mercator.ts';

/** The smallest box around a route, in degrees. Across the antimeridian west is greater than east. */
export interface RouteBounds {
  south: number;
  west: number;
  north: number;
  east: number;
}

/** The extent of a path in the units of its points. */
export interface Extent {
  minX: number;
  minY: number;
  maxX: number;
  maxY: number;
}

/**
 * Projects a route onto the world square as one contiguous path: points that are not a place on Earth
 * (NaN, infinite, out of range) are dropped, and a step across the antimeridian goes on past 0 or 1.
 */
export function projectRoute(route: readonly LatLng[]): WorldPoint[] {
  return unwrapAntimeridian(route.filter(isPlace).map(projectToWorld));
}

/** The extent of a path that has at least one point; undefined for an empty path. */
export function measureExtent(path: readonly WorldPoint[]): Extent | undefined {
  const first = path[0];
  if (first === undefined) return undefined;
  const extent: Extent = { minX: first[0], minY: first[1], maxX: first[0], maxY: first[1] };
  for (const [x, y] of path) {
    if (x < extent.minX) extent.minX = x;
    if (x > extent.maxX) extent.maxX = x;
    if (y < extent.minY) extent.minY = y;
    if (y > extent.maxY) extent.maxY = y;
  }
  return extent;
}

/** The bounds in degrees, to six decimals (0.1 m), of an extent on the world square. */
export function boundsOf(extent: Extent): RouteBounds {
  const [north, west] = unprojectFromWorld([extent.minX, extent.minY]);
  const [south, east] = unprojectFromWorld([extent.maxX, extent.maxY]);
  return {
    south: toSixDecimals(south),
    west: toSixDecimals(west),
    north: toSixDecimals(north),
    east: toSixDecimals(east),
  };
}

function isPlace([latitude, longitude]: LatLng): boolean {
  // Comparisons with NaN are false, and an infinity is beyond the range.
  return Math.abs(latitude) <= 90 && Math.abs(longitude) <= 180;
}

function unwrapAntimeridian(path: readonly WorldPoint[]): WorldPoint[] {
  let turns = 0;
  let previousX: number | undefined;
  let [minX, maxX] = [Infinity, -Infinity];
  const unwrapped = path.map(([x, y]): WorldPoint => {
    if (previousX !== undefined && x - previousX > 0.5) turns -= 1;
    if (previousX !== undefined && x - previousX < -0.5) turns += 1;
    previousX = x;
    minX = Math.min(minX, x + turns);
    maxX = Math.max(maxX, x + turns);
    return [x + turns, y];
  });
  // More than once around the globe is noise, not a journey: the picture shows it as it was recorded.
  return maxX - minX > 1 ? [...path] : unwrapped;
}

function toSixDecimals(degrees: number): number {
  return Math.round(degrees * 1e6) / 1e6;
}
