/*
 * A stroke font on a grid of four by six, drawn as paths: a container need not have any font installed,
 * and the same text gives the same pixels everywhere. Each glyph is a list of lines; each line is a list
 * of points "xy". Capitals stand from y 0 to the baseline at 6, descenders reach 8.
 */
const GLYPHS: Readonly<Record<string, string>> = {
  '0': '103041453616050110',
  '1': '112026 1636',
  '2': '01103041420646',
  '3': '0110304142334445361605 1333',
  '4': '36300444',
  '5': '400002324345361605',
  '6': '413010010516364544331304',
  '7': '004016',
  '8': '13020110304142331304051636454433',
  '9': '051636454130100102133342',
  A: '062046 1434',
  B: '00063645443342413000 0333',
  C: '4130100105163645',
  D: '00062644422000',
  E: '40000646 0333',
  F: '400006 0333',
  G: '41301001051636454323',
  H: '0006 4046 0343',
  I: '0006',
  J: '4045361605',
  K: '0006 4004 2246',
  L: '000646',
  M: '0600234046',
  N: '06004640',
  O: '103041453616050110',
  P: '06003041423303',
  Q: '103041453616050110 2446',
  R: '06003041423303 2346',
  S: '413010010213334445361605',
  T: '0040 2026',
  U: '000516364540',
  V: '002640',
  W: '0016233640',
  X: '0046 4006',
  Y: '002340 2326',
  Z: '00400646',
  a: '3322120305162635 3236',
  b: '0006 0312223335261605',
  c: '3322120305162635',
  d: '3036 3322120305162635',
  e: '04343322120305162635',
  f: '201116 0222',
  g: '3322120305162635 3237281807',
  h: '0006 0312223336',
  i: '0206 0000',
  j: '121708 1010',
  k: '0006 3205 1436',
  l: '0006',
  m: '0206 03122326 23324346',
  n: '0206 0312223336',
  o: '122233352616050312',
  p: '0208 0312223335261605',
  q: '3238 3322120305162635',
  r: '0206 031222',
  s: '3212031424352606',
  t: '101526 0222',
  u: '0205162635 3236',
  v: '022642',
  w: '0216233642',
  x: '0236 3206',
  y: '0226 4218',
  z: '02320636',
  '.': '0606',
  ',': '1607',
  ':': '0303 0606',
  '-': '0333',
  '+': '2125 0343',
  '/': '3006',
  _: '0646',
  '(': '10010516',
  ')': '00111506',
  "'": '0001',
  '°': '1021120110',
  '©': '204062644626040220 4232233444',
  '?': '01103041422324 2626',
};

const SPACE_ADVANCE = 2.6;
const LETTER_GAP = 1.7;

/** Text as SVG path data, and its width. */
export interface StrokedText {
  path: string;
  width: number;
}

/**
 * Writes one line as path data in the font's units (capital height 6) from (0, 0), baseline at y 6. Draw
 * it with round caps, for a full stop is a line without length. Accents are left off; a character that
 * the font lacks is a question mark.
 */
export function strokeText(text: string): StrokedText {
  let [path, x] = ['', 0];
  for (const character of text.normalize('NFD').replace(/\p{Mark}/gu, '')) {
    if (/\s/u.test(character)) {
      x += SPACE_ADVANCE;
      continue;
    }
    const lines = (GLYPHS[character] ?? GLYPHS['?'] ?? '').split(' ').map(readPoints);
    path += lines.map((points) => drawLine(points, x)).join('');
    x += Math.max(...lines.flat().map(([pointX]) => pointX)) + LETTER_GAP;
  }
  return { path, width: Math.max(0, x - LETTER_GAP) };
}

function readPoints(line: string): [x: number, y: number][] {
  return (line.match(/\d\d/g) ?? []).map((pair) => [Number(pair[0]), Number(pair[1])]);
}

function drawLine(points: [x: number, y: number][], offsetX: number): string {
  const [start, ...rest] = points.map(([x, y]) => `${Math.round((x + offsetX) * 10) / 10} ${y}`);
  return rest.length === 1 && rest[0] === start ? `M${start}h.01` : `M${start}L${rest.join(' ')}`;
}
