import fc from 'fast-check';
import { ASPECTS, type Aspect, REASONS, type Reason } from '../../src/domain/job.ts';

/** What the provider answers a call for an activity. */
export type Answer = 'found' | 'otherAthlete' | 404 | 429 | 500;

/** One step of a history. Times in milliseconds. */
export type Operation =
  | { do: 'event'; activityId: string; athleteId: string; aspect: Aspect; signed: boolean; atMs: number }
  | { do: 'request'; activityId: string; athleteId: string; reason: Reason; force: boolean }
  | { do: 'claim'; worker: number }
  /** The run that the worker has had for longest ends with the provider's answer. */
  | { do: 'settle'; worker: number; answer: Answer }
  /** The worker's process dies: its runs are never settled. */
  | { do: 'crash'; worker: number }
  /** One pass of the rescue of dead and stale runs. */
  | { do: 'rescue' }
  | { do: 'retry'; activityId: string }
  | { do: 'delete'; activityId: string }
  | { do: 'advance'; ms: number }
  /** Two at once. */
  | { do: 'together'; both: [Operation, Operation] };

export const WORKERS = 3;
export const CONNECTED_ATHLETES = ['1', '2', '3'];
const STRANGER = '4'; // was never connected
const ATHLETES = [...CONNECTED_ATHLETES, STRANGER];
const ACTIVITIES = ['101', '102', '103', '104', '105', '106'];
const MINUTE_MS = 60_000;
const WINDOW_MS = 15 * MINUTE_MS;

const activityId = fc.constantFrom(...ACTIVITIES);
const worker = fc.nat({ max: WORKERS - 1 });
const ownerOf = (id: string) => ATHLETES[Number(id) % ATHLETES.length] as string;
/** An activity with its owner; one time in ten, with another athlete. */
const place = fc
  .tuple(activityId, fc.nat({ max: 9 }), fc.constantFrom(...ATHLETES))
  .map(([id, luck, other]) => ({ activityId: id, athleteId: luck === 0 ? other : ownerOf(id) }));

// Few distinct times, so that events repeat one another, come too late, or lie in the future.
const event = fc
  .tuple(
    place,
    fc.constantFrom(...ASPECTS),
    fc.boolean(),
    fc.constantFrom(0, 10_000, 20_000, 30_000, WINDOW_MS, 3 * 3_600_000),
  )
  .map(([where, aspect, signed, atMs]): Operation => ({ do: 'event', ...where, aspect, signed, atMs }));
const request = fc
  .tuple(place, fc.constantFrom(...REASONS), fc.boolean())
  .map(([where, reason, force]): Operation => ({ do: 'request', ...where, reason, force }));
const claim = fc.record({ do: fc.constant('claim' as const), worker });
const answer = fc.constantFrom<Answer[]>('found', 'found', 'found', 'otherAthlete', 404, 429, 500, 500);
const settle = fc.record({ do: fc.constant('settle' as const), worker, answer });
const crash = fc.record({ do: fc.constant('crash' as const), worker });
const rescue = fc.constant<Operation>({ do: 'rescue' });
const retry = fc.record({ do: fc.constant('retry' as const), activityId });
const remove = fc.record({ do: fc.constant('delete' as const), activityId });
// Within a cooldown, past it, past a backoff or a stale run, and over the rollover of a window.
const advance = fc.record({
  do: fc.constant('advance' as const),
  ms: fc.constantFrom(5000, 25_000, 25_000, MINUTE_MS, 3 * MINUTE_MS, WINDOW_MS),
});

const weighted = (weight: number, arbitrary: fc.Arbitrary<Operation>) => ({ weight, arbitrary });
const concurrent = [
  weighted(6, event),
  weighted(3, request),
  weighted(8, claim),
  weighted(6, settle),
  weighted(1, retry),
  weighted(1, remove),
];
const inTurn = [...concurrent, weighted(1, crash), weighted(2, rescue), weighted(5, advance)];
const pair = fc
  .tuple(fc.oneof(...concurrent), fc.oneof(...concurrent, weighted(2, rescue)))
  .map((both): Operation => ({ do: 'together', both }));

/** Histories of operations, one after the other, or with pairs that run at the same time. */
export function histories(options: { together: boolean }): fc.Arbitrary<Operation[]> {
  const operation = options.together ? fc.oneof(...inTurn, weighted(20, pair)) : fc.oneof(...inTurn);
  return fc.array(operation, { minLength: 10, maxLength: 24, size: 'max' });
}
