/** Line drawings on a grid of 24, stroked with round caps: what a picture shows when there is no route. */
const DRAWINGS = {
  ride: 'M10 16a4 4 0 1 1-8 0a4 4 0 1 1 8 0ZM22 16a4 4 0 1 1-8 0a4 4 0 1 1 8 0ZM6 16l3.5-7h6.5l2 7M9.5 9l3 7h-6.5M12.5 16l3.6-7M16 9l-.8-2.6h2.4M8.2 7h2.6',
  run: 'M16.8 4a1.7 1.7 0 1 1-3.4 0a1.7 1.7 0 1 1 3.4 0ZM6.5 10.5l2.8-2.8l4 .6l-2.6 5.4l3.6 2.4l-.8 5M10.7 13.7l-1.7 3.3h-4M13.3 8.3l2 3h3.2',
  walk: 'M14.2 4a1.7 1.7 0 1 1-3.4 0a1.7 1.7 0 1 1 3.4 0ZM12.2 7.8l-1 5.7l3 3.2l.8 4.8M11.2 13.5l-1.2 3.7l-2.6 4.3M12.2 7.8l-3.2 2l-.8 3.2M12.2 7.8l2 3l2.8 1.2',
  golf: 'M10 20.5v-17l7.5 3.2l-7.5 3.2M5 20.5h9M18.5 19.5a1.2 1.2 0 1 1-2.4 0a1.2 1.2 0 1 1 2.4 0Z',
  wheelchair:
    'M11.2 4a1.7 1.7 0 1 1-3.4 0a1.7 1.7 0 1 1 3.4 0ZM9.5 7.5v6.5h5.8l2.4 5.5h2M9.5 10.5h4.5M15.2 17.5a5.2 5.2 0 1 1-7.4-6',
  hike: 'M2 19.5l6.5-11l4 6.5l2.8-4.2l6.7 8.7ZM6.6 11.8l1.9 1.7l1.8-1.9M18.5 5.5a1.6 1.6 0 1 1-3.2 0a1.6 1.6 0 1 1 3.2 0Z',
  swim: 'M19.6 9a1.9 1.9 0 1 1-3.8 0a1.9 1.9 0 1 1 3.8 0ZM6 13.4l5.6-3.6l-2.4-3l4.2-1.8M11.6 9.8l3 3.2M2 15.6c1.7-1.5 3.3-1.5 5 0s3.3 1.5 5 0s3.3-1.5 5 0s3.3 1.5 5 0M2 19.6c1.7-1.5 3.3-1.5 5 0s3.3 1.5 5 0s3.3-1.5 5 0s3.3 1.5 5 0',
  water: 'M12 3v11M12 3.5l6.5 9h-6.5M12 6l-5 6.5h5M4 15.5h16l-2.4 4h-11.2Z',
  snow: 'M12 2.5v19M3.8 7.2l16.4 9.6M20.2 7.2l-16.4 9.6M9.4 4.6l2.6 2.6l2.6-2.6M9.4 19.4l2.6-2.6l2.6 2.6M4.4 11l3.5-.9l-.9-3.6M19.6 13l-3.5.9l.9 3.6M4.4 13l3.5.9l-.9 3.6M19.6 11l-3.5-.9l.9-3.6',
  strength: 'M7.5 12h9M7.5 7v10M16.5 7v10M4.5 9v6M19.5 9v6M2.5 12h2M19.5 12h2',
  pulse: 'M2.5 12.5h4.2l2.3-6l4.4 12l2.8-8l1.3 2h4',
} as const;

/** Which drawing a sport type of the provider gets; the first pattern that matches. */
const PATTERNS: readonly (readonly [pattern: RegExp, drawing: keyof typeof DRAWINGS])[] = [
  [/ski|snow|skat|hockey/i, 'snow'],
  [/ride|cycl|velomobile/i, 'ride'],
  [/walk/i, 'walk'],
  [/golf/i, 'golf'],
  [/wheelchair/i, 'wheelchair'],
  [/hik|climb/i, 'hike'],
  [
    /run|stair|soccer|football|tennis|badminton|squash|pickleball|padel|racquet|basketball|volleyball|cricket|dance/i,
    'run',
  ],
  [/swim/i, 'swim'],
  [/row|kayak|cano|sail|surf|paddl/i, 'water'],
  [/weight|crossfit|strength/i, 'strength'],
];

/**
 * Draws the sport in the middle of a square picture as SVG elements. A sport type that is unknown or
 * absent gets a pulse line.
 */
export function drawSportGlyph(sportType: string | undefined, sizePx: number): string {
  const drawing = PATTERNS.find(([pattern]) => pattern.test(sportType ?? ''))?.[1] ?? 'pulse';
  const [middle, radius] = [sizePx / 2, sizePx * 0.3];
  const scale = (sizePx * 0.36) / 24;
  const corner = middle - 12 * scale;
  return (
    `<circle cx="${middle}" cy="${middle}" r="${radius}" fill="#ffffff" fill-opacity=".85"/>` +
    `<path transform="translate(${corner} ${corner}) scale(${scale})" d="${DRAWINGS[drawing]}" fill="none" stroke="#4b6357" stroke-width="1.5" stroke-linejoin="round" stroke-linecap="round"/>`
  );
}
