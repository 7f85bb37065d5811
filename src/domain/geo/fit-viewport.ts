import type { Extent } from './project-route.ts';

/** Edge length of a map tile in the pixels of its own zoom level. */
export const TILE_PX = 256;
/** The deepest zoom a picture uses: about 0.6 m per pixel at the equator. */
export const MAX_ZOOM = 18;
/** The zoom for a single place: a neighbourhood rather than a doorstep. */
export const SINGLE_PLACE_ZOOM = 15;

/** Which part of the world a square picture shows. */
export interface Viewport {
  /** 0..18 and whole for a map of tiles; otherwise the exact zoom, to two decimals, that fills the picture. */
  zoom: number;
  /** Width of the whole world, in pixels of the picture. */
  worldPx: number;
  /** The picture's corner, in pixels from the world's north-west corner. */
  leftPx: number;
  topPx: number;
}

/**
 * Finds the largest scale at which an extent fits into a square picture with padding on each side.
 * `wholeTiles` keeps to whole zoom levels and whole pixels, so that tiles are drawn sharp and without
 * seams; a picture wider than 512 px enlarges its tiles to half its width, so that nine are always enough.
 */
export function fitViewport(
  extent: Extent,
  options: { sizePx: number; paddingPx: number; wholeTiles: boolean },
): Viewport {
  const { sizePx, paddingPx, wholeTiles } = options;
  const span = Math.max(extent.maxX - extent.minX, extent.maxY - extent.minY);
  const maxZoom = isSingleSpot(span) ? SINGLE_PLACE_ZOOM : MAX_ZOOM;
  const fittingPx = Math.min((sizePx - 2 * paddingPx) / span, TILE_PX * 2 ** maxZoom);
  const { worldPx, zoom } = wholeTiles ? roundToTiles(fittingPx, sizePx) : keepExact(fittingPx);
  const round = wholeTiles ? Math.round : (px: number): number => px;
  return {
    zoom,
    worldPx,
    leftPx: round(((extent.minX + extent.maxX) / 2) * worldPx - sizePx / 2),
    topPx: round(((extent.minY + extent.maxY) / 2) * worldPx - sizePx / 2),
  };
}

/** Less than two pixels at the deepest zoom, about a metre: a recording that stood still. */
function isSingleSpot(span: number): boolean {
  return span * TILE_PX * 2 ** MAX_ZOOM < 2;
}

function roundToTiles(fittingPx: number, sizePx: number): { worldPx: number; zoom: number } {
  const drawnTilePx = Math.max(TILE_PX, Math.ceil(sizePx / 2));
  const zoom = Math.floor(Math.log2(fittingPx / drawnTilePx));
  // A route around half the world is too wide for its padding even at zoom 0: that tile shrinks.
  if (zoom < 0) return { worldPx: Math.max(1, Math.floor(fittingPx)), zoom: 0 };
  return { worldPx: drawnTilePx * 2 ** zoom, zoom };
}

function keepExact(fittingPx: number): { worldPx: number; zoom: number } {
  return { worldPx: fittingPx, zoom: Math.round(Math.log2(fittingPx / TILE_PX) * 100) / 100 };
}
