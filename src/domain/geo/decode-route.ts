import type { LatLng } from '../route.ts';

/** Four days at a point a second; a picture of such a long recording needs no more points than it has pixels. */
const MAX_CHARACTERS = 2 * 1024 * 1024;
const MAX_POINTS = 20_000;

/**
 * Decodes the provider's encoded polyline (Google's algorithm, five decimals). Of a long one it keeps every second,
 * third or later point, at most 20,001, so that memory is bounded whatever was recorded or invented.
 * @returns the points in order; an empty route when the text is not a whole polyline or longer than 2 MiB, because
 * half of a damaged one would be a wrong place rather than a shorter route.
 */
export function decodeRoute(encoded: string): LatLng[] {
  const points = encoded.length > MAX_CHARACTERS ? 0 : countPoints(encoded);
  const stride = Math.ceil(points / MAX_POINTS);
  const route: LatLng[] = [];
  const sums = [0, 0];
  let number = 0;
  let factor = 1;
  let numbers = 0;
  for (let index = 0; points > 0 && index < encoded.length; index += 1) {
    const chunk = encoded.charCodeAt(index) - 63;
    // Not by shifting: a number with too many characters must not wrap back into range.
    number += (chunk & 0x1f) * factor;
    factor *= 32;
    if (chunk >= 0x20) continue;
    sums[numbers % 2] = (sums[numbers % 2] as number) + (number % 2 === 1 ? -(number + 1) / 2 : number / 2);
    number = 0;
    factor = 1;
    numbers += 1;
    const point = numbers / 2;
    if (numbers % 2 === 0 && (point % stride === 0 || point === 1 || point === points))
      route.push([(sums[0] as number) / 1e5, (sums[1] as number) / 1e5]);
  }
  return route;
}

/** Each number ends with a character below '_' (0x20 after the offset of 63), and a point has two. @returns 0 for no whole polyline */
function countPoints(encoded: string): number {
  let numbers = 0;
  let isEnd = false;
  for (let index = 0; index < encoded.length; index += 1) {
    const chunk = encoded.charCodeAt(index) - 63;
    if (chunk < 0 || chunk > 0x3f) return 0;
    isEnd = chunk < 0x20;
    if (isEnd) numbers += 1;
  }
  return isEnd && numbers % 2 === 0 ? numbers / 2 : 0;
}
