import { createHash } from 'node:crypto';

import { fitViewport, type Viewport } from '../domain/geo/fit-viewport.ts';
import { boundsOf, type Extent, measureExtent, projectRoute, type RouteBounds } from '../domain/geo/project-route.ts';
import { type PathPoint, simplifyPath } from '../domain/geo/simplify-path.ts';
import type { WorldPoint } from '../domain/geo/web-mercator.ts';
import type { LatLng } from '../domain/route.ts';
import { drawBackground } from './background-layer.ts';
import { drawCaption } from './caption-layer.ts';
import { drawDebugLayer } from './debug-layer.ts';
import { sharp } from './image-library.ts';
import { drawMapLayer, type MapLayer, type MapProblem } from './map-layer.ts';
import { drawRoute } from './route-layer.ts';
import { drawSportGlyph } from './sport-glyph.ts';
import type { TileSource } from './tile-source.ts';

export interface ThumbnailRequest {
  /** The recorded points in order; invalid coordinates are skipped. */
  route: readonly LatLng[];
  /** What the activity is, drawn when there is no route. */
  label?: { sportType?: string | undefined };
  /** Edge length of the picture in pixels, 16 to 2048. */
  sizePx: number;
  /** Writes bounds and zoom onto the picture. */
  debug: boolean;
  /** Where map tiles come from; undefined for the plain background. */
  map: TileSource | undefined;
  signal?: AbortSignal | undefined;
}

export interface Thumbnail {
  png: Buffer;
  /** Strong entity tag of the PNG's bytes, with its quotes. */
  etag: string;
  /** Where the route lies; undefined when there is none. */
  bounds: RouteBounds | undefined;
  /** The zoom shown; undefined when there is no route. */
  zoom: number | undefined;
  /** Points of the line that was drawn. */
  drawnPoints: number;
  /** Map squares drawn. */
  drawnTiles: number;
  /** Map squares that show the plain background because their tile could not be had. */
  missingTiles: number;
  /** Why the first of them could not be had. */
  tileProblem: string | undefined;
  /** The same for the log, and whether they may be had later. */
  mapProblem: MapProblem | undefined;
}

/** A line thinner than this many pixels' worth of detail looks the same and costs a multiple. */
const THINNING = { minStepPx: 1.5, maxPoints: 2000 };
const NO_MAP: MapLayer = { svg: '', drawnTiles: 0, missingTiles: 0, firstProblem: undefined, problem: undefined };

/**
 * Draws an activity's thumbnail: its route on the map or a plain background, or its sport when there is
 * no route. The same request gives the same bytes.
 * @throws RangeError for an impossible size; the signal's reason when aborted.
 */
export async function renderThumbnail(request: ThumbnailRequest): Promise<Thumbnail> {
  const { sizePx, map, signal } = request;
  if (!(sizePx >= 16 && sizePx <= 2048 && Number.isInteger(sizePx))) {
    throw new RangeError(`A thumbnail is 16 to 2048 whole pixels wide, not ${sizePx}.`);
  }
  signal?.throwIfAborted();

  const path = projectRoute(request.route);
  const extent = measureExtent(path);
  if (extent === undefined) return renderWithoutRoute(request);

  const viewport = fitViewport(extent, { sizePx, paddingPx: sizePx * 0.11, wholeTiles: map !== undefined });
  const line = placeLine(path, extent, viewport);
  const mapLayer = map === undefined ? NO_MAP : await drawMapLayer(map, viewport, sizePx, signal);
  const bounds = boundsOf(extent);
  const unitPx = lineUnitPx(sizePx);

  const png = await rasterise(sizePx, [
    drawBackground(sizePx),
    mapLayer.svg,
    drawRoute(line, unitPx),
    map !== undefined && mapLayer.drawnTiles > 0 ? drawCaption([map.attribution], 'bottom-right', sizePx, unitPx) : '',
    request.debug ? drawDebugLayer({ bounds, extent, viewport, mapLayer }, sizePx, unitPx) : '',
  ]);
  return {
    png,
    etag: entityTag(png),
    bounds,
    zoom: viewport.zoom,
    drawnPoints: line.length,
    drawnTiles: mapLayer.drawnTiles,
    missingTiles: mapLayer.missingTiles,
    tileProblem: mapLayer.firstProblem,
    mapProblem: mapLayer.problem,
  };
}

async function renderWithoutRoute({ sizePx, label, debug }: ThumbnailRequest): Promise<Thumbnail> {
  const png = await rasterise(sizePx, [
    drawBackground(sizePx),
    drawSportGlyph(label?.sportType, sizePx),
    debug ? drawCaption(['no route'], 'top-left', sizePx, lineUnitPx(sizePx)) : '',
  ]);
  return {
    png,
    etag: entityTag(png),
    bounds: undefined,
    zoom: undefined,
    drawnPoints: 0,
    drawnTiles: 0,
    missingTiles: 0,
    tileProblem: undefined,
    mapProblem: undefined,
  };
}

/** The route in pixels of the picture, thinned; one point when it never leaves a spot of two pixels. */
function placeLine(path: readonly WorldPoint[], extent: Extent, viewport: Viewport): PathPoint[] {
  const { worldPx, leftPx, topPx } = viewport;
  const toPixels = ([x, y]: WorldPoint): PathPoint => [x * worldPx - leftPx, y * worldPx - topPx];
  const spanPx = Math.max(extent.maxX - extent.minX, extent.maxY - extent.minY) * worldPx;
  return spanPx < 2 ? path.slice(0, 1).map(toPixels) : simplifyPath(path.map(toPixels), THINNING);
}

/** 1 at 256 px. By the square root, so that a small picture keeps a visible line and a large one a fine one. */
function lineUnitPx(sizePx: number): number {
  return Math.round(Math.sqrt(sizePx / 256) * 100) / 100;
}

/** One SVG with its background inside, for compositing costs half as much again; no palette, which doubles the time. */
function rasterise(sizePx: number, layers: string[]): Promise<Buffer> {
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${sizePx}" height="${sizePx}">${layers.join('')}</svg>`;
  return sharp(Buffer.from(svg)).removeAlpha().png({ compressionLevel: 3 }).toBuffer();
}

function entityTag(png: Buffer): string {
  return `"${createHash('sha256').update(png).digest('base64url')}"`;
}
