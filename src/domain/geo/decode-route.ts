import polyline from '@mapbox/polyline';

import type { LatLng } from '../route.ts';

/**
 * Decodes the provider's encoded polyline (Google's algorithm, five decimals).
 * @returns the points in order; an empty route when the text is not a whole polyline, because half of a
 * damaged one would be a wrong place rather than a shorter route.
 */
export function decodeRoute(encoded: string): LatLng[] {
  return isWholePolyline(encoded) ? polyline.decode(encoded) : [];
}

/** Each number ends with a character below '_' (0x20 after the offset of 63), and a point has two. */
function isWholePolyline(encoded: string): boolean {
  if (!/^[?-~]*[?-^]$/.test(encoded)) return false;
  let numbers = 0;
  for (let index = 0; index < encoded.length; index += 1) {
    if (encoded.charCodeAt(index) - 63 < 0x20) numbers += 1;
  }
  return numbers % 2 === 0;
}
