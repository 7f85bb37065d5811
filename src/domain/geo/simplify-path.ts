/** A point of a path in pixels. */
export type PathPoint = readonly [x: number, y: number];

/** Douglas-Peucker is quadratic on spirals; in pieces of this many points it stays linear in the whole. */
const PIECE_POINTS = 512;

/**
 * Thins a path to what can be seen: first points nearer than `minStepPx` to the last kept one go, then
 * those that lie within a quarter of that of the line without them (Douglas-Peucker). First and last
 * point stay. A path that crosses the picture thousands of times is thinned harder until at most
 * `maxPoints` are left.
 */
export function simplifyPath(
  path: readonly PathPoint[],
  options: { minStepPx: number; maxPoints: number },
): PathPoint[] {
  // A scribble this long is a blob of ink whichever of its points are joined: this bounds the work.
  let simplified = keepEvenly(dropNearSteps(path, options.minStepPx), 8 * options.maxPoints);
  simplified = dropWithinTolerance(simplified, options.minStepPx / 4);
  for (const factor of [1.6, 2.5, 4]) {
    if (simplified.length <= options.maxPoints) break;
    const stepPx = options.minStepPx * factor;
    simplified = dropWithinTolerance(dropNearSteps(simplified, stepPx), stepPx / 4);
  }
  return keepEvenly(simplified, options.maxPoints);
}

function dropNearSteps(path: readonly PathPoint[], stepPx: number): PathPoint[] {
  let kept = path[0];
  const last = path.at(-1);
  if (kept === undefined || last === undefined) return [];
  const steps: PathPoint[] = [kept];
  for (const point of path) {
    if (squaredDistance(point, kept) < stepPx * stepPx) continue;
    steps.push(point);
    kept = point;
  }
  if (kept[0] !== last[0] || kept[1] !== last[1]) steps.push(last);
  return steps;
}

function dropWithinTolerance(path: readonly PathPoint[], tolerancePx: number): PathPoint[] {
  const keep = new Uint8Array(path.length);
  for (let from = 0; from < path.length; from += PIECE_POINTS) {
    const to = Math.min(from + PIECE_POINTS, path.length - 1);
    markCorners(path, from, to, tolerancePx * tolerancePx, keep);
  }
  return path.filter((_point, index) => keep[index] === 1);
}

/** Douglas-Peucker over path[from..to] with its own stack, since a long track would overflow the call stack. */
function markCorners(
  path: readonly PathPoint[],
  from: number,
  to: number,
  squaredTolerance: number,
  keep: Uint8Array,
): void {
  keep[from] = 1;
  keep[to] = 1;
  const spans: [number, number][] = [[from, to]];
  for (let span = spans.pop(); span !== undefined; span = spans.pop()) {
    const [start, end] = span;
    const corner = findFarthest(path, start, end, squaredTolerance);
    if (corner === undefined) continue;
    keep[corner] = 1;
    spans.push([start, corner], [corner, end]);
  }
}

function findFarthest(
  path: readonly PathPoint[],
  start: number,
  end: number,
  squaredTolerance: number,
): number | undefined {
  const a = path[start];
  const b = path[end];
  if (a === undefined || b === undefined) return undefined;
  let farthest: number | undefined;
  let farthestSquared = squaredTolerance;
  for (let index = start + 1; index < end; index += 1) {
    const point = path[index];
    if (point === undefined) continue;
    const squared = squaredDistanceToSegment(point, a, b);
    if (squared <= farthestSquared) continue;
    farthest = index;
    farthestSquared = squared;
  }
  return farthest;
}

function keepEvenly(path: PathPoint[], maxPoints: number): PathPoint[] {
  if (path.length <= maxPoints) return path;
  const stride = (path.length - 1) / (maxPoints - 1);
  return Array.from({ length: maxPoints }, (_unused, index) => path[Math.round(index * stride)]).filter(
    (point) => point !== undefined,
  );
}

function squaredDistance(a: PathPoint, b: PathPoint): number {
  return (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2;
}

function squaredDistanceToSegment(point: PathPoint, a: PathPoint, b: PathPoint): number {
  // Runs some twenty times per point of a track, so it allocates no arrays.
  const dx = b[0] - a[0];
  const dy = b[1] - a[1];
  const squaredLength = dx * dx + dy * dy;
  if (squaredLength === 0) return squaredDistance(point, a);
  const along = ((point[0] - a[0]) * dx + (point[1] - a[1]) * dy) / squaredLength;
  const within = Math.min(Math.max(along, 0), 1);
  return (point[0] - a[0] - within * dx) ** 2 + (point[1] - a[1] - within * dy) ** 2;
}
