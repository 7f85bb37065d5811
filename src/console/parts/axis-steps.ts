const SMALL = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30];
const MINUTE = 60;
const HOUR = 3600;
const DAY = 24 * HOUR;

/** How far apart the ticks of an axis of seconds may be: whole units, as people count time. */
export const SPAN_STEPS: readonly number[] = [
  ...SMALL,
  ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
  ...[1, 2, 5, 10, 20, 50, 100].map((n) => n * DAY),
];

/** How far apart the ticks of an axis of counts may be: there are no half jobs. */
export const COUNT_STEPS: readonly number[] = Array.from({ length: 10 }, (_, power) => 10 ** power).flatMap((ten) => [
  ten,
  2 * ten,
  5 * ten,
]);
