/*
 * Contour lines on a grid of 256, made once by hand: enough of a landscape that a route does not hang in
 * the void, too faint to be taken for a map.
 */
const CONTOURS = [
  'M-8 62C30 40 58 58 84 44S120 4 138-8',
  'M-8 94C36 70 72 88 104 66S146 22 166-8',
  'M-8 128C44 100 84 120 124 92S172 40 194-8',
  'M-8 164C52 132 96 152 144 120S204 64 226-8',
  'M-8 202C60 166 110 186 166 148S238 92 264 22',
  'M-8 240C70 200 124 220 190 178S246 130 264 84',
  'M40 264C92 232 146 250 208 212S250 176 264 150',
  'M112 264C150 250 190 256 226 240S254 220 264 208',
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
