import type { LatLng } from '../route.ts';

/**
 * A place on the web-mercator square: x grows east from 0 (180° W) to 1 (180° E), y grows south from 0
 * (85.0511° N) to 1 (85.0511° S). After unwrapping, x may lie outside 0..1.
 */
export type WorldPoint = readonly [x: number, y: number];

/** The latitude at which the web-mercator world is a square: atan(sinh(π)), 85.0511287798°. */
export const MAX_LATITUDE = (Math.atan(Math.sinh(Math.PI)) * 180) / Math.PI;

/** Projects degrees onto the world square; a latitude nearer the pole than MAX_LATITUDE is clamped. */
export function projectToWorld([latitude, longitude]: LatLng): WorldPoint {
  const clamped = Math.min(Math.max(latitude, -MAX_LATITUDE), MAX_LATITUDE);
  const sine = Math.sin((clamped * Math.PI) / 180);
  return [longitude / 360 + 0.5, 0.5 - Math.log((1 + sine) / (1 - sine)) / (4 * Math.PI)];
}

/** The degrees of a place on the world square; the longitude is brought back to -180..180. */
export function unprojectFromWorld([x, y]: WorldPoint): LatLng {
  const latitude = (Math.atan(Math.sinh(Math.PI * (1 - 2 * y))) * 180) / Math.PI;
  const inWorld = x >= 0 && x <= 1 ? x : x - Math.floor(x);
  return [latitude, inWorld * 360 - 180];
}
