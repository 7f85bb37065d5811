/*
 * Thumbnails per second on one core, beside bare sharp turning a trivial SVG of the same size into a PNG
 * in the same run: the ratio is comparable between machines, the figures are not. Run: node bench/thumbnail.ts
 */
import type { LatLng } from '../src/domain/route.ts';
import { sharp } from '../src/thumbnail/image-library.ts';
import { renderThumbnail } from '../src/thumbnail/render-thumbnail.ts';

const SIZE_PX = 256;
const TRACK_POINTS = 2000;
const ROUNDS = 5;
const ROUND_MS = 1000;

const TRIVIAL_SVG = Buffer.from(
  `<svg xmlns="http://www.w3.org/2000/svg" width="${SIZE_PX}" height="${SIZE_PX}"><rect width="${SIZE_PX}" height="${SIZE_PX}" fill="#eef"/></svg>`,
);
const route = drawTrack(TRACK_POINTS);

const renderOurs = async (): Promise<number> =>
  (await renderThumbnail({ route, sizePx: SIZE_PX, debug: false, map: undefined })).png.length;
const renderTrivial = async (): Promise<number> => (await sharp(TRIVIAL_SVG).png().toBuffer()).length;

await measureRound(renderOurs);
await measureRound(renderTrivial);
const ours: number[] = [];
const trivial: number[] = [];
// Alternating, so that a busy moment of the machine affects both.
for (let round = 0; round < ROUNDS; round += 1) {
  ours.push(await measureRound(renderOurs));
  trivial.push(await measureRound(renderTrivial));
}
const [oursPerSecond, trivialPerSecond] = [median(ours), median(trivial)];
console.log(`${SIZE_PX} px, track of ${TRACK_POINTS} points, one at a time, median of ${ROUNDS} rounds`);
console.log(`thumbnail    ${oursPerSecond.toFixed(0)} images/s, ${await renderOurs()} bytes`);
console.log(`trivial SVG  ${trivialPerSecond.toFixed(0)} images/s, ${await renderTrivial()} bytes`);
console.log(`ratio        ${(oursPerSecond / trivialPerSecond).toFixed(2)}`);

async function measureRound(render: () => Promise<number>): Promise<number> {
  const startedMs = performance.now();
  let images = 0;
  while (performance.now() - startedMs < ROUND_MS) {
    await render();
    images += 1;
  }
  return (images * 1000) / (performance.now() - startedMs);
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** A round of about 12 km with bends at several scales, as a recording has. */
function drawTrack(points: number): LatLng[] {
  return Array.from({ length: points }, (_unused, index) => {
    const angle = (index / points) * 2 * Math.PI;
    const radius = 0.02 * (1 + 0.35 * Math.sin(3 * angle) + 0.12 * Math.sin(11 * angle) + 0.02 * Math.sin(97 * angle));
    return [46.948 + radius * 0.65 * Math.sin(angle), 7.447 + radius * Math.cos(angle)];
  });
}
