import { TILE_PX, type Viewport } from '../domain/geo/fit-viewport.ts';
import { type TileAddress, TileError, type TileSource } from './tile-source.ts';

/** The map under a route, as SVG elements. */
export interface MapLayer {
  svg: string;
  drawnTiles: number;
  /** Tiles that failed; their squares are left out, so that the plain background shows. */
  missingTiles: number;
  /** Why the first of them failed. */
  firstProblem: string | undefined;
  problem: MapProblem | undefined;
}

/** Why tiles are missing on a picture. */
export interface MapProblem {
  /** For the log: names neither the address with its key nor the tile, which would reveal a place. */
  reason: string;
  /** Whether some of them may be available later, so that redrawing is worthwhile. */
  mayComeLater: boolean;
}

interface PlacedTile {
  tile: TileAddress;
  leftPx: number;
  topPx: number;
  edgePx: number;
}

/**
 * Fetches the tiles that a viewport shows and places them. A missing tile does not fail the map.
 * @throws the signal's reason when aborted.
 */
export async function drawMapLayer(
  map: TileSource,
  viewport: Viewport,
  sizePx: number,
  signal?: AbortSignal,
): Promise<MapLayer> {
  const placed = listTiles(viewport, sizePx);
  const results = await Promise.allSettled(placed.map(({ tile }) => map.getTile(tile, signal)));
  signal?.throwIfAborted();
  const svg = results.map((result, index) =>
    result.status === 'fulfilled' ? drawTile(placed[index], result.value) : '',
  );
  const problems: unknown[] = results.filter((result) => result.status === 'rejected').map(({ reason }) => reason);
  return {
    svg: svg.join(''),
    drawnTiles: results.length - problems.length,
    missingTiles: problems.length,
    firstProblem: problems.length > 0 ? describe(problems[0]) : undefined,
    problem: findProblem(problems),
  };
}

/** The tiles under a picture. Columns wrap at the antimeridian; beyond the poles there are none. */
export function listTiles(viewport: Viewport, sizePx: number): PlacedTile[] {
  const tilesAround = 2 ** viewport.zoom;
  const edgePx = viewport.worldPx / tilesAround;
  const placed: PlacedTile[] = [];
  for (let row = Math.floor(viewport.topPx / edgePx); row * edgePx < viewport.topPx + sizePx; row += 1) {
    if (row < 0 || row >= tilesAround) continue;
    for (let column = Math.floor(viewport.leftPx / edgePx); column * edgePx < viewport.leftPx + sizePx; column += 1) {
      const x = ((column % tilesAround) + tilesAround) % tilesAround;
      placed.push({
        tile: { z: viewport.zoom, x, y: row },
        leftPx: column * edgePx - viewport.leftPx,
        topPx: row * edgePx - viewport.topPx,
        edgePx,
      });
    }
  }
  return placed;
}

function drawTile(placed: PlacedTile | undefined, png: Buffer): string {
  if (placed === undefined) return '';
  const { leftPx, topPx, edgePx } = placed;
  const smoothing = edgePx === TILE_PX ? ' image-rendering="optimizeSpeed"' : '';
  return `<image x="${leftPx}" y="${topPx}" width="${edgePx}" height="${edgePx}" preserveAspectRatio="none"${smoothing} href="data:image/png;base64,${png.toString('base64')}"/>`;
}

/** A temporary cause comes first: it is the reason to redraw the picture. */
function findProblem(problems: readonly unknown[]): MapProblem | undefined {
  const passing = problems.find((problem) => problem instanceof TileError && problem.mayComeLater);
  const problem = passing ?? problems[0];
  if (problem === undefined) return undefined;
  const reason = problem instanceof TileError ? problem.withoutPlace : describe(problem);
  return { reason, mayComeLater: passing !== undefined };
}

function describe(reason: unknown): string {
  return reason instanceof Error ? reason.message : String(reason);
}
