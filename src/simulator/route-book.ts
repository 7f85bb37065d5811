import polyline from '@mapbox/polyline';
import type { LatLng, Place } from './places.ts';
import { hashText, seedRandom } from './random.ts';
import { drawAcrossAntimeridian, drawHugeTrack, drawRoute } from './route-shapes.ts';
import type { Sport } from './sports.ts';

/** What is special about an activity: an ordinary route, none at all, or one of the shapes that pictures get wrong. */
export type ActivityKind = 'route' | 'indoor' | 'manual' | 'point' | 'antimeridian' | 'huge';

/** A route as the API shows it; both polylines are JSON string literals, quotes included. */
export interface Route {
  polylineJson: string;
  summaryJson: string;
  distanceMetres: number;
  start: LatLng | undefined;
  end: LatLng | undefined;
}

export const noRoute: Route = {
  polylineJson: '""',
  summaryJson: '""',
  distanceMetres: 0,
  start: undefined,
  end: undefined,
};

const variants = 12;
const hugeTrackPoints = 50_000;
const summaryPoints = 90;

/**
 * Draws each distinct route once. Activities share the drawings, so that a hundred thousand of them cost
 * little memory and an answer is put together without encoding anything.
 */
export class RouteBook {
  readonly #seed: number;
  readonly #routes = new Map<string, Route>();

  constructor(seed: number) {
    this.#seed = seed;
  }

  /** The route of an activity; the same place, sport and number always give the same one. */
  routeFor(kind: ActivityKind, place: Place, sport: Sport, number: number): Route {
    if (kind === 'indoor' || kind === 'manual') return noRoute;
    const variant = kind === 'huge' ? 0 : number % variants;
    const key = `${kind} ${place.city} ${sport.sportType} ${variant}`;
    let route = this.#routes.get(key);
    if (route === undefined) {
      route = describeRoute(this.#draw(kind, place, sport, key));
      this.#routes.set(key, route);
    }
    return route;
  }

  #draw(kind: ActivityKind, place: Place, sport: Sport, key: string): LatLng[] {
    const random = seedRandom(hashText(this.#seed, key));
    if (kind === 'point') return [place.centre];
    if (kind === 'antimeridian') return drawAcrossAntimeridian(random);
    if (kind === 'huge') return drawHugeTrack(place.centre, hugeTrackPoints, random);
    const [lat, lng] = place.centre;
    const centre: LatLng = [lat + (random() - 0.5) * 0.05, lng + (random() - 0.5) * 0.07];
    return drawRoute(centre, sport.radiusMetres, random);
  }
}

/** Measures and encodes points as they were recorded. */
export function describeRoute(points: readonly LatLng[]): Route {
  return {
    polylineJson: JSON.stringify(polyline.encode(points as [number, number][])),
    summaryJson: JSON.stringify(polyline.encode(thinOut(points) as [number, number][])),
    distanceMetres: Math.round(measureMetres(points) * 10) / 10,
    start: points[0],
    end: points[points.length - 1],
  };
}

function thinOut(points: readonly LatLng[]): readonly LatLng[] {
  if (points.length <= summaryPoints) return points;
  const step = (points.length - 1) / (summaryPoints - 1);
  return Array.from({ length: summaryPoints }, (_, index) => points[Math.round(index * step)] as LatLng);
}

/** Length of the way through the points in metres, on a sphere. */
function measureMetres(points: readonly LatLng[]): number {
  let metres = 0;
  for (let index = 1; index < points.length; index++) {
    metres += metresBetween(points[index - 1] as LatLng, points[index] as LatLng);
  }
  return metres;
}

function metresBetween(from: LatLng, to: LatLng): number {
  const radians = Math.PI / 180;
  const halfLat = ((to[0] - from[0]) * radians) / 2;
  const halfLng = ((to[1] - from[1]) * radians) / 2;
  const chord =
    Math.sin(halfLat) ** 2 + Math.cos(from[0] * radians) * Math.cos(to[0] * radians) * Math.sin(halfLng) ** 2;
  return 2 * 6_371_000 * Math.asin(Math.min(1, Math.sqrt(chord)));
}
