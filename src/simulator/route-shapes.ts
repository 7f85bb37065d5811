import type { LatLng } from './places.ts';
import { pickOne, type Random } from './random.ts';

/** A point in metres east and north of the centre. */
type Metres = readonly [number, number];

const shapes = [drawLoop, drawRiverside, drawBlocks];

/** A plausible way of roughly the given radius around a centre: a park loop, a riverside out and back, or city blocks. */
export function drawRoute(centre: LatLng, radiusMetres: number, random: Random): LatLng[] {
  const shape = pickOne(shapes, random);
  return place(centre, shape(radiusMetres * (0.7 + random() * 0.6), random), random);
}

/** A way from one side of the 180th meridian to the other and back, on Taveuni. */
export function drawAcrossAntimeridian(random: Random): LatLng[] {
  return place([-16.86, 179.998], drawLoop(2_500, random), random);
}

/** Laps with that many points, as a device records them once a second through a long day. */
export function drawHugeTrack(centre: LatLng, points: number, random: Random): LatLng[] {
  const metres: Metres[] = [];
  for (let index = 0; index < points; index++) {
    const angle = (index / points) * 2 * Math.PI * 17;
    const radius = 4_000 + 2_500 * Math.sin(angle / 5.3) + 300 * Math.sin(angle * 3.1);
    metres.push([radius * Math.cos(angle), radius * Math.sin(angle)]);
  }
  return place(centre, metres, random);
}

function drawLoop(radius: number, random: Random): Metres[] {
  const waves = [2, 3, 5, 7].map((count) => ({ count, height: (random() * 0.5) / count, phase: random() * 6.28 }));
  const stretch = 0.6 + random() * 0.8;
  const points: Metres[] = [];
  const total = 260;
  for (let index = 0; index <= total; index++) {
    const angle = (index / total) * 2 * Math.PI;
    const bulge = waves.reduce((sum, wave) => sum + wave.height * Math.cos(wave.count * angle + wave.phase), 1);
    points.push([radius * bulge * Math.cos(angle), radius * bulge * stretch * Math.sin(angle)]);
  }
  return points;
}

function drawRiverside(radius: number, random: Random): Metres[] {
  const out: Metres[] = [[0, 0]];
  const base = random() * 2 * Math.PI;
  const bends = [1, 2.3, 4.7].map((rate) => ({ rate, width: (0.9 * random()) / rate, phase: random() * 6.28 }));
  const total = 170;
  const step = (radius * 2.6) / total;
  let east = 0;
  let north = 0;
  for (let index = 1; index <= total; index++) {
    const along = (index / total) * 9;
    const heading = base + bends.reduce((sum, bend) => sum + bend.width * Math.sin(bend.rate * along + bend.phase), 0);
    east += step * Math.cos(heading);
    north += step * Math.sin(heading);
    out.push([east, north]);
  }
  const otherBank = out.map(([x, y]): Metres => [x + 9 * Math.sin(base), y - 9 * Math.cos(base)]).reverse();
  return [...out, ...otherBank];
}

function drawBlocks(radius: number, random: Random): Metres[] {
  const block = radius / 4;
  const turn = random() * 1.2;
  const corners: Metres[] = [[0, 0]];
  const legs = [3, 2, -1, 3, -4, 1, -3, -4, 2, -2, 3, 0].map((leg) => leg + (random() < 0.3 ? 1 : 0));
  let east = 0;
  let north = 0;
  legs.forEach((leg, index) => {
    if (index % 2 === 0) east += leg * block;
    else north += leg * block;
    corners.push([east, north]);
  });
  corners.push([0, north], [0, 0]);
  return walk(corners, 25).map(
    ([x, y]): Metres => [x * Math.cos(turn) - y * Math.sin(turn), x * Math.sin(turn) + y * Math.cos(turn)],
  );
}

function walk(corners: readonly Metres[], everyMetres: number): Metres[] {
  const points: Metres[] = [];
  for (let index = 1; index < corners.length; index++) {
    const [fromEast, fromNorth] = corners[index - 1] as Metres;
    const [toEast, toNorth] = corners[index] as Metres;
    const steps = Math.max(1, Math.round(Math.hypot(toEast - fromEast, toNorth - fromNorth) / everyMetres));
    for (let step = 0; step < steps; step++) {
      const share = step / steps;
      points.push([fromEast + (toEast - fromEast) * share, fromNorth + (toNorth - fromNorth) * share]);
    }
  }
  return [...points, corners[corners.length - 1] as Metres];
}

/** Puts metres on the globe, with the few metres of error that a receiver has. */
function place(centre: LatLng, metres: readonly Metres[], random: Random): LatLng[] {
  const degreesPerMetre = 1 / 111_320;
  const lngDegreesPerMetre = degreesPerMetre / Math.cos((centre[0] * Math.PI) / 180);
  return metres.map(([east, north]): LatLng => {
    const lat = centre[0] + (north + (random() - 0.5) * 4) * degreesPerMetre;
    const lng = centre[1] + (east + (random() - 0.5) * 4) * lngDegreesPerMetre;
    return [lat, lng > 180 ? lng - 360 : lng < -180 ? lng + 360 : lng];
  });
}
