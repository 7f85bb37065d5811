import type { Viewport } from '../domain/geo/fit-viewport.ts';
import type { Extent, RouteBounds } from '../domain/geo/project-route.ts';
import { drawCaption } from './caption-layer.ts';
import type { MapLayer } from './map-layer.ts';

/** What a debug picture shows about itself. */
export interface DebugFacts {
  bounds: RouteBounds;
  extent: Extent;
  viewport: Viewport;
  mapLayer: MapLayer;
}

/** Writes bounds and zoom onto a square picture and frames the bounds, as SVG elements. */
export function drawDebugLayer(facts: DebugFacts, sizePx: number, unitPx: number): string {
  const { bounds, extent, viewport, mapLayer } = facts;
  const left = extent.minX * viewport.worldPx - viewport.leftPx;
  const top = extent.minY * viewport.worldPx - viewport.topPx;
  const width = (extent.maxX - extent.minX) * viewport.worldPx;
  const height = (extent.maxY - extent.minY) * viewport.worldPx;
  const tiles = mapLayer.drawnTiles + mapLayer.missingTiles;
  const lines = [
    `south ${bounds.south.toFixed(5)}  west ${bounds.west.toFixed(5)}`,
    `north ${bounds.north.toFixed(5)}  east ${bounds.east.toFixed(5)}`,
    `zoom ${viewport.zoom}${tiles > 0 ? `  tiles ${mapLayer.drawnTiles}/${tiles}` : ''}`,
  ];
  return (
    `<rect x="${left}" y="${top}" width="${width}" height="${height}" fill="none" stroke="#2563eb" stroke-width="${unitPx}" stroke-dasharray="${4 * unitPx} ${3 * unitPx}"/>` +
    drawCaption(lines, 'top-left', sizePx, unitPx)
  );
}
