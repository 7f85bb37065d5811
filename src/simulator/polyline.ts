/** Latitude and longitude in degrees. */
export type LatLng = readonly [number, number];

/** Encodes points as a Google polyline with five decimals. */
export function encodePolyline(points: readonly LatLng[]): string {
  let text = '';
  let lastLat = 0;
  let lastLng = 0;
  for (const [latDegrees, lngDegrees] of points) {
    const lat = Math.round(latDegrees * 1e5);
    const lng = Math.round(lngDegrees * 1e5);
    text += encodeDelta(lat - lastLat) + encodeDelta(lng - lastLng);
    lastLat = lat;
    lastLng = lng;
  }
  return text;
}

/** Length of the way through the points in metres, on a sphere. */
export function measureMetres(points: readonly LatLng[]): number {
  let metres = 0;
  for (let index = 1; index < points.length; index++) {
    metres += metresBetween(points[index - 1] as LatLng, points[index] as LatLng);
  }
  return metres;
}

function encodeDelta(delta: number): string {
  let rest = delta < 0 ? -delta * 2 - 1 : delta * 2;
  let text = '';
  while (rest >= 32) {
    text += String.fromCharCode((rest % 32) + 32 + 63);
    rest = Math.floor(rest / 32);
  }
  return text + String.fromCharCode(rest + 63);
}

function metresBetween(from: LatLng, to: LatLng): number {
  const radians = Math.PI / 180;
  const halfLat = ((to[0] - from[0]) * radians) / 2;
  const halfLng = ((to[1] - from[1]) * radians) / 2;
  const chord =
    Math.sin(halfLat) ** 2 + Math.cos(from[0] * radians) * Math.cos(to[0] * radians) * Math.sin(halfLng) ** 2;
  return 2 * 6_371_000 * Math.asin(Math.min(1, Math.sqrt(chord)));
}
