import { strokeText } from './stroke-font.ts';

const INK = '#27332d';
/** In the font's units: capital height 6, so a line and the space under it take 11. */
const LINE_ADVANCE = 11;
const MARGIN = 3;

/**
 * Writes lines of text on a pale panel in a corner of a square picture, as SVG elements. Text that is
 * wider than the picture is written smaller.
 * @param unitPx the picture's unit of line width: 1 at 256 px
 */
export function drawCaption(
  lines: readonly string[],
  corner: 'top-left' | 'bottom-right',
  sizePx: number,
  unitPx: number,
): string {
  const texts = lines.map(strokeText);
  const width = Math.max(...texts.map((text) => text.width)) + 2 * MARGIN;
  const height = lines.length * LINE_ADVANCE - 3 + 2 * MARGIN - 1;
  const scale = Math.min(unitPx * 1.1, sizePx / width);
  const [x, y] = corner === 'top-left' ? [0, 0] : [sizePx - width * scale, sizePx - height * scale];
  const paths = texts.map(
    ({ path }, index) => `<path transform="translate(${MARGIN} ${MARGIN + index * LINE_ADVANCE})" d="${path}"/>`,
  );
  return (
    `<g transform="translate(${x} ${y}) scale(${scale})" fill="none" stroke="${INK}" stroke-width=".95" stroke-linejoin="round" stroke-linecap="round">` +
    `<rect width="${width}" height="${height}" fill="#ffffff" fill-opacity=".78" stroke="none"/>${paths.join('')}</g>`
  );
}
