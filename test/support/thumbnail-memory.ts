/**
 * Draws the polyline of the standard input, and prints what that took above a process that has just drawn an ordinary
 * picture: MB of resident memory, at its highest.
 */
import { buffer } from 'node:stream/consumers';
import { decodeRoute } from '../../src/domain/geo/decode-route.ts';
import { renderThumbnail } from '../../src/thumbnail/render-thumbnail.ts';

const draw = async (encoded: string, sizePx: number) => {
  const { drawnPoints } = await renderThumbnail({ route: decodeRoute(encoded), sizePx, debug: false, map: undefined });
  return drawnPoints;
};
const highestMb = () => process.resourceUsage().maxRSS / 1024;

const encoded = (await buffer(process.stdin)).toString('latin1');
await draw('_p~iF~ps|U_ulLnnqC_mqNvxq`@', 256);
const idleMb = highestMb();
const startedAt = performance.now();
const drawnPoints = await draw(encoded, Number(process.argv[2]));
process.stdout.write(
  JSON.stringify({ aboveIdleMb: highestMb() - idleMb, ms: performance.now() - startedAt, drawnPoints }),
);
