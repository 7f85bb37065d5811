import type { PathPoint } from '../domain/geo/simplify-path.ts';

const LINE_COLOUR = '#e8402a';
const CASING_COLOUR = '#ffffff';
const START_COLOUR = '#15914b';
const END_COLOUR = '#1f2a37';

/**
 * Draws a route as SVG elements: a strong line in a white casing, a green dot at the start and a dark one
 * at the end. A path of one point is a single dot.
 * @param path in pixels of the picture, at least one point
 * @param unitPx the picture's unit of line width: 1 at 256 px
 */
export function drawRoute(path: readonly PathPoint[], unitPx: number): string {
  const [start, end] = [path[0], path.at(-1)];
  if (start === undefined || end === undefined) return '';
  if (path.length === 1) return drawDot(start, 7 * unitPx, LINE_COLOUR, unitPx);

  const data = `M${path.map(([x, y]) => `${toTenth(x)} ${toTenth(y)}`).join('L')}`;
  // A round trip ends where it began: the larger end dot stays visible as a ring around the start.
  const isRoundTrip = Math.hypot(end[0] - start[0], end[1] - start[1]) < 8 * unitPx;
  return (
    `<g fill="none" stroke-linejoin="round" stroke-linecap="round"><path d="${data}" stroke="${CASING_COLOUR}" stroke-width="${7 * unitPx}"/>` +
    `<path d="${data}" stroke="${LINE_COLOUR}" stroke-width="${3.8 * unitPx}"/></g>` +
    drawDot(end, (isRoundTrip ? 7.5 : 5) * unitPx, END_COLOUR, unitPx) +
    drawDot(start, (isRoundTrip ? 4 : 5) * unitPx, START_COLOUR, unitPx)
  );
}

function drawDot([x, y]: PathPoint, radiusPx: number, colour: string, unitPx: number): string {
  return `<circle cx="${toTenth(x)}" cy="${toTenth(y)}" r="${radiusPx}" fill="${colour}" stroke="${CASING_COLOUR}" stroke-width="${2 * unitPx}"/>`;
}

function toTenth(px: number): number {
  return Math.round(px * 10) / 10;
}
