/*
 * Contour lines on a grid of 256, drawn once manually: enough of a landscape to give a route some ground, too faint
 * to be taken for a map.
 */
const CONTOURS = [
  'M-8 94C36 70 72 88 104 66S146 22 166-8',
  'M-8 150C50 118 92 138 136 106S190 52 212-8',
  'M-8 206C60 170 110 190 166 152S238 96 264 26',
  'M40 264C92 232 146 250 208 212S250 176 264 150',
].join('');

/** The plain background of a square picture as SVG elements: a pale gradient with faint contour lines. */
export function drawBackground(sizePx: number): string {
  const scale = sizePx / 256;
  return (
    '<linearGradient id="ground" x1="0" y1="0" x2="0" y2="1"><stop offset="0" stop-color="#f4f7f1"/>' +
    '<stop offset="1" stop-color="#e3ebe4"/></linearGradient>' +
    `<rect width="${sizePx}" height="${sizePx}" fill="url(#ground)"/>` +
    `<path transform="scale(${scale})" d="${CONTOURS}" fill="none" stroke="#cddbd0" stroke-width="1.2"/>`
  );
}
