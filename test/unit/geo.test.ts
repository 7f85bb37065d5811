import { describe, expect, it } from '@jest/globals';
import polyline from '@mapbox/polyline';

import { decodeRoute } from '../../src/domain/geo/decode-route.ts';
import { fitViewport } from '../../src/domain/geo/fit-viewport.ts';
import { boundsOf, type Extent, measureExtent, projectRoute } from '../../src/domain/geo/project-route.ts';
import { type PathPoint, simplifyPath } from '../../src/domain/geo/simplify-path.ts';
import { MAX_LATITUDE, projectToWorld, unprojectFromWorld } from '../../src/domain/geo/web-mercator.ts';
import type { LatLng } from '../../src/domain/route.ts';

describe('decodeRoute', () => {
  it('decodes the example of the algorithm', () => {
    expect(decodeRoute('_p~iF~ps|U_ulLnnqC_mqNvxq`@')).toEqual([
      [38.5, -120.2],
      [40.7, -120.95],
      [43.252, -126.453],
    ]);
  });

  it('gives an empty route for an empty polyline', () => {
    expect(decodeRoute('')).toEqual([]);
  });

  it.each([
    ['cut off within a number', '_p~iF~ps|U_ulLnnqC_mqNvxq`'],
    ['cut off within a point', '_p~iF~ps|U_ulL'],
    ['with a character that the encoding lacks', '_p~iF~ps|U ulL'],
  ])('gives an empty route for a polyline %s', (_case, encoded) => {
    expect(decodeRoute(encoded)).toEqual([]);
  });

  it('reads back what was encoded, south and west of zero too', () => {
    const route: [number, number][] = Array.from({ length: 200 }, (_unused, i) => [-33 + i / 1e4, -70 - i / 1e5]);
    const decoded = decodeRoute(polyline.encode(route));
    expect(decoded).toHaveLength(200);
    decoded.forEach(([latitude, longitude], i) => {
      expect(latitude).toBeCloseTo(route[i]?.[0] ?? Number.NaN, 4);
      expect(longitude).toBeCloseTo(route[i]?.[1] ?? Number.NaN, 4);
    });
  });
});

describe('the web-mercator projection', () => {
  it('puts the middle of the world in the middle and its corners in the corners', () => {
    expect(projectToWorld([0, 0])).toEqual([0.5, 0.5]);
    expectPoint(projectToWorld([MAX_LATITUDE, -180]), [0, 0]);
    expectPoint(projectToWorld([-MAX_LATITUDE, 180]), [1, 1]);
  });

  it('clamps at 85.0511 degrees, so that a pole has a place', () => {
    expect(MAX_LATITUDE).toBeCloseTo(85.0511, 4);
    expect(projectToWorld([90, 0])).toEqual(projectToWorld([MAX_LATITUDE, 0]));
    expect(projectToWorld([-90, 0])).toEqual(projectToWorld([-86, 0]));
  });

  it('is reversible', () => {
    expectPoint(unprojectFromWorld(projectToWorld([46.948, 7.447])), [46.948, 7.447]);
  });

  it('brings a longitude beyond the antimeridian back into range', () => {
    expectPoint(unprojectFromWorld([1.25, 0.5]), [0, -90]);
    expectPoint(unprojectFromWorld([-0.25, 0.5]), [0, 90]);
  });
});

describe('projectRoute', () => {
  it('drops invalid coordinates', () => {
    const places: LatLng[] = [
      [Number.NaN, 7],
      [46, Number.POSITIVE_INFINITY],
      [91, 7],
      [46, 181],
      [46, 7],
      [47, Number.NaN],
    ];
    expect(projectRoute(places)).toEqual([projectToWorld([46, 7])]);
  });

  it.each([
    ['eastward', [179.9, -179.9, -179.8]],
    ['westward', [-179.9, 179.9, 179.8]],
    ['there and back', [179.9, -179.9, 179.8]],
  ])('keeps a route across the antimeridian contiguous, %s', (_case, longitudes) => {
    const path = projectRoute(longitudes.map((longitude): LatLng => [-17, longitude]));
    for (let i = 1; i < path.length; i += 1) {
      expect(Math.abs((path[i]?.[0] ?? Number.NaN) - (path[i - 1]?.[0] ?? Number.NaN))).toBeLessThan(0.001);
    }
  });

  it('states bounds with west greater than east across the antimeridian', () => {
    const extent = measureExtent(
      projectRoute([
        [-17, 179.5],
        [-16, -179.25],
      ]),
    );
    expect(extent && boundsOf(extent)).toEqual({ south: -17, west: 179.5, north: -16, east: -179.25 });
  });

  it('leaves noise that winds around the globe as it was recorded', () => {
    const winding = Array.from({ length: 40 }, (_unused, i): LatLng => [0, ((i * 100 + 180) % 360) - 180]);
    const extent = measureExtent(projectRoute(winding));
    expect((extent?.maxX ?? 0) - (extent?.minX ?? 0)).toBeLessThanOrEqual(1);
  });

  it('has no extent without points', () => {
    expect(measureExtent(projectRoute([]))).toBeUndefined();
  });
});

describe('fitViewport', () => {
  const city: Extent = { minX: 0.5206, minY: 0.3515, maxX: 0.5208, maxY: 0.3516 };

  it('fills the picture up to its padding without a map', () => {
    const viewport = fitViewport(city, { sizePx: 256, paddingPx: 28, wholeTiles: false });
    expect(city.minX * viewport.worldPx - viewport.leftPx).toBeCloseTo(28, 5);
    expect(city.maxX * viewport.worldPx - viewport.leftPx).toBeCloseTo(228, 5);
    expect(((city.minY + city.maxY) / 2) * viewport.worldPx - viewport.topPx).toBeCloseTo(128, 5);
  });

  it('takes the deepest whole zoom at which the route fits on a map', () => {
    const viewport = fitViewport(city, { sizePx: 256, paddingPx: 28, wholeTiles: true });
    const widthPx = 0.0002 * viewport.worldPx;
    expect(viewport.zoom).toBe(11);
    expect(viewport.worldPx).toBe(256 * 2 ** 11);
    expect(widthPx).toBeLessThanOrEqual(200);
    expect(widthPx * 2).toBeGreaterThan(200);
    expect(Number.isInteger(viewport.leftPx) && Number.isInteger(viewport.topPx)).toBe(true);
  });

  it.each([
    ['a metre', 3e-8, 18],
    ['nothing', 0, 15],
    ['the whole world', 1, 0],
  ])('keeps the zoom of a map within 0 to 18 for a route across %s', (_case, span, zoom) => {
    const extent = { minX: 0.5 - span / 2, minY: 0.5, maxX: 0.5 + span / 2, maxY: 0.5 };
    const viewport = fitViewport(extent, { sizePx: 256, paddingPx: 28, wholeTiles: true });
    expect(viewport.zoom).toBe(zoom);
    expect(span * viewport.worldPx).toBeLessThanOrEqual(200);
  });
});

describe('simplifyPath', () => {
  const options = { minStepPx: 1.5, maxPoints: 3000 };

  it('keeps the ends and the corners, and drops what lies on the line', () => {
    const corner = [...walk([0, 0], [99, 0], 66), ...walk([99, 0], [99, 81], 54)];
    expect(simplifyPath(corner, options)).toEqual([
      [0, 0],
      [99, 0],
      [99, 81],
    ]);
  });

  it('stays within 1.5 px of every point of the track', () => {
    const track = Array.from({ length: 5000 }, (_unused, i): PathPoint => [i / 20, 100 + 60 * Math.sin(i / 90)]);
    const thinned = simplifyPath(track, options);
    expect(thinned.length).toBeLessThan(250);
    const farthest = Math.max(...track.map((point) => distanceToPath(point, thinned)));
    expect(farthest).toBeLessThan(1.5);
  });

  it('thins 200,000 points of scribble to the limit without exhausting the call stack', () => {
    const scribble = Array.from(
      { length: 200_000 },
      (_unused, i): PathPoint => [128 + 100 * Math.sin(i * 2.4), 128 + 100 * Math.cos(i * 1.7)],
    );
    const thinned = simplifyPath(scribble, options);
    expect(thinned.length).toBeLessThanOrEqual(3000);
    expect(thinned[0]).toEqual(scribble[0]);
    expect(thinned.at(-1)).toEqual(scribble.at(-1));
  });

  it('leaves short paths alone', () => {
    expect(simplifyPath([], options)).toEqual([]);
    expect(simplifyPath([[1, 2]], options)).toEqual([[1, 2]]);
  });
});

function walk([x0, y0]: PathPoint, [x1, y1]: PathPoint, steps: number): PathPoint[] {
  return Array.from({ length: steps + 1 }, (_unused, i) => [
    x0 + ((x1 - x0) * i) / steps,
    y0 + ((y1 - y0) * i) / steps,
  ]);
}

function distanceToPath([x, y]: PathPoint, path: readonly PathPoint[]): number {
  return Math.min(
    ...path.slice(1).map(([bx, by], i) => {
      const [ax, ay] = path[i] ?? [bx, by];
      const [dx, dy] = [bx - ax, by - ay];
      const along = Math.min(Math.max(((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy), 0), 1);
      return Math.hypot(x - ax - along * dx, y - ay - along * dy);
    }),
  );
}

function expectPoint(actual: readonly [number, number], expected: readonly [number, number]): void {
  expect(actual[0]).toBeCloseTo(expected[0], 9);
  expect(actual[1]).toBeCloseTo(expected[1], 9);
}
