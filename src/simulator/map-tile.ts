import sharp from 'sharp';
import type { AddRoute } from './answer.ts';
import { hashText } from './random.ts';

const size = 256;
const water = 0xaad3df;
const land = 0xf3f0e9;
const park = 0xd3e6c4;
const built = 0xe9e4dc;
const mainRoad = 0xfbd998;
const street = 0xffffff;
/** From this zoom on, the same lakes, rivers and parks show at every zoom; below it, continents. */
const regionalZoom = 8;

/** Draws one tile of an invented map as a PNG. Neighbours fit together. */
async function drawMapTile(seed: number, z: number, x: number, y: number): Promise<Buffer> {
  const pixels = Buffer.alloc(size * size * 3);
  const scale = 2 ** z;
  for (let row = 0; row < size; row++) {
    for (let column = 0; column < size; column++) {
      const colour = colourAt(seed, z, (x + column / size) / scale, (y + row / size) / scale);
      pixels.writeUIntBE(colour, (row * size + column) * 3, 3);
    }
  }
  return sharp(pixels, { raw: { width: size, height: size, channels: 3 } })
    .png({ palette: true, colours: 16, effort: 1 })
    .toBuffer();
}

/** The colour at a place of the world square, both coordinates from 0 to 1. */
function colourAt(seed: number, z: number, u: number, v: number): number {
  const finest = z + 5;
  if (z < regionalZoom) {
    if (fractal(seed, u, v, 2, finest) < -0.1) return water;
    return fractal(seed + 3, u, v, 4, finest) > 0.15 ? park : land;
  }
  if (fractal(seed, u, v, 10, finest) < -0.42) return water;
  if (Math.abs(fractal(seed + 1, u, v, 9, Math.min(finest, 12))) < 0.005) return water;
  if (z >= 10) {
    const bend = fractal(seed + 2, u, v, 11, 12) * 0.6;
    if (nearLine(u, v, z, bend, z + 1, 2.6)) return mainRoad;
    if (nearLine(u, v, z, bend, z + 3, 1.3)) return street;
  }
  const growth = fractal(seed + 3, u, v, 12, finest);
  if (growth > 0.3) return park;
  return growth < -0.2 ? built : land;
}

/** Whether a line of the 2^level lattice, bent a little, passes within half that many pixels. */
function nearLine(u: number, v: number, z: number, bend: number, level: number, pixels: number): boolean {
  const lines = 2 ** level;
  const half = (pixels / 2 / size) * 2 ** (level - z);
  const across = u * lines * 0.94 + v * lines * 0.34 + bend;
  const down = v * lines * 0.94 - u * lines * 0.34 + bend;
  return Math.abs(across - Math.round(across)) < half || Math.abs(down - Math.round(down)) < half;
}

/** Noise in about -0.7 to 0.7, with features from 1/2^coarse of the world down to 1/2^fine. */
function fractal(seed: number, u: number, v: number, coarse: number, fine: number): number {
  let sum = 0;
  let weight = 0.5;
  for (let level = coarse; level <= Math.min(fine, coarse + 4); level++) {
    sum += weight * smoothNoise(seed + level * 31, u * 2 ** level, v * 2 ** level);
    weight /= 2;
  }
  return sum;
}

function smoothNoise(seed: number, x: number, y: number): number {
  const left = Math.floor(x);
  const top = Math.floor(y);
  const shareX = ease(x - left);
  const shareY = ease(y - top);
  const above = mix(corner(seed, left, top), corner(seed, left + 1, top), shareX);
  const below = mix(corner(seed, left, top + 1), corner(seed, left + 1, top + 1), shareX);
  return mix(above, below, shareY);
}

function corner(seed: number, x: number, y: number): number {
  let hash = Math.imul(x, 0x27d4eb2d) ^ Math.imul(y, 0x165667b1) ^ Math.imul(seed, 0x9e3779b1);
  hash = Math.imul(hash ^ (hash >>> 15), 0x85ebca6b);
  hash ^= hash >>> 13;
  return ((hash >>> 0) / 4_294_967_296) * 2 - 1;
}

function ease(share: number): number {
  return share * share * (3 - 2 * share);
}

function mix(from: number, to: number, share: number): number {
  return from + (to - from) * share;
}

const mostKept = 4_096;

/** `/tiles/{z}/{x}/{y}.png`: each tile is drawn once and kept; 404 where the world has none. */
export function addTileRoute(add: AddRoute, worldSeed: number): void {
  const seed = hashText(worldSeed, 'tiles');
  const tiles = new Map<string, Promise<Buffer>>();
  add('get', '/tiles/:z/:x/:y.png', async ({ path, params }) => {
    const [z = 0, x = 0, y = 0] = [params.z, params.x, params.y].map((text) =>
      /^\d{1,7}$/.test(`${text}`) ? Number(text) : NaN,
    );
    if (!(z <= 20 && x < 2 ** z && y < 2 ** z)) return { status: 404, body: '' };
    if (tiles.size >= mostKept) tiles.clear();
    const tile = tiles.get(path) ?? drawMapTile(seed, z, x, y);
    tiles.set(path, tile);
    return { status: 200, body: await tile, type: 'image/png', headers: { 'Cache-Control': 'public, max-age=86400' } };
  });
}
