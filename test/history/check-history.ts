import fc from 'fast-check';
import { Model, Violation } from './model.ts';
import { histories, type Operation } from './operations.ts';
import type { Happened, World } from './world.ts';

/** How often each thing happened, over all histories. */
export type Tally = Record<string, number>;

/** A seed whose history broke a promise. */
export interface Failure {
  seed: number;
  /** The promise, the shortest history found that breaks it, and the command that runs it again. */
  report: string;
}

/**
 * Runs the history of one seed and checks each step against the model.
 * @param options.together pairs of operations run at the same time; the order in which they committed is whichever
 * explains the results of both. Their interleaving is the database's own and may differ when a seed is run again
 * @param options.shrink false reports the history as it was drawn
 * @returns the failure, if any
 */
export async function checkSeed(
  world: World,
  seed: number,
  options: { together: boolean; tally?: Tally; shrink?: boolean },
): Promise<Failure | undefined> {
  const { together, tally = {}, shrink = true } = options;
  const property = fc.asyncProperty(histories({ together }), (operations) => checkHistory(world, operations, tally));
  const details = await fc.check(property, { seed, numRuns: 1, endOnFailure: !shrink });
  if (!details.failed) return undefined;
  const [operations = []] = details.counterexample ?? [];
  const lines = [
    `Seed ${seed} breaks a promise: ${(details.errorInstance as Error | undefined)?.message}`,
    ...operations.map((operation, n) => `  ${n + 1}. ${JSON.stringify(operation)}`),
    `Run it again: npm run history -- --seed ${seed}${together ? ' --together' : ''}`,
  ];
  return { seed, report: lines.join('\n') };
}

async function checkHistory(world: World, operations: readonly Operation[], tally: Tally): Promise<void> {
  await world.reset();
  let model = new Model();
  const check = async (happened: Happened[]): Promise<void> => {
    for (const one of happened) count(tally, one);
    const state = await world.readState();
    model = explain(model, happened, (tried) => tried.check(state, world.now()));
  };
  for (const operation of operations) await check(await world.perform(operation));
  await world.drain(check);
  model.checkDrained();
}

/** The model after what happened, in the first order that explains it. @throws Violation of the first order tried */
function explain(model: Model, happened: readonly Happened[], check: (model: Model) => void): Model {
  const orders = happened.length === 2 ? [happened, happened.toReversed()] : [happened];
  let first: Violation | undefined;
  for (const order of orders) {
    const tried = model.clone();
    try {
      for (const one of order) tried.apply(one);
      check(tried);
      return tried;
    } catch (error) {
      if (!(error instanceof Violation)) throw error;
      first ??= error;
    }
  }
  throw first;
}

function count(tally: Tally, happened: Happened): void {
  const add = (what: string, n = 1) => {
    tally[what] = (tally[what] ?? 0) + n;
  };
  if (happened.what === 'event' || happened.what === 'request') add(`${happened.what} ${happened.result}`);
  else if (happened.what === 'settle') add(`run ${happened.result}`);
  else if (happened.what === 'claim' && happened.held?.run.needsCall) add('call');
  else if (happened.what === 'rescue') {
    add('rescued dead', happened.dead);
    add('rescued stale', happened.stale);
  }
}
