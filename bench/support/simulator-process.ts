import type { SimulatorOptions } from '../../src/simulator/settings.ts';
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts';
import { runsAsOtherSelf, startOtherSelf } from './child-process.ts';

/** An athlete of the simulated provider with tokens and activities. */
export interface BenchAthlete {
  athleteId: string;
  accessToken: string;
  refreshToken: string;
  expiresAt: number;
  activityIds: string[];
}

/** A counted call in the provider's log: arrival in its own time, answer, activity. */
export type LoggedCall = { at: number; status: number; activityId: string | undefined; athleteId: string | undefined };

type Question =
  | { ask: 'start'; options: SimulatorOptions }
  | { ask: 'athletes'; counts: number[] }
  | { ask: 'calls' }
  | { ask: 'arrivals'; count: number };

const ARRIVALS_WITHIN_MS = 300_000;

/** The simulated provider in a process of its own, so that its work is not done in the measured one. */
export interface SimulatorProcess {
  url: string;
  /** Adds an athlete for each count, with that many activities. */
  addAthletes(counts: number[]): Promise<BenchAthlete[]>;
  /** The counted calls since the previous request. */
  takeCalls(): Promise<LoggedCall[]>;
  /** Resolves when so many calls have arrived since the log was last taken. @throws after five minutes */
  arrivals(count: number): Promise<void>;
  stop(): Promise<void>;
}

export async function startSimulatorProcess(options: SimulatorOptions = {}): Promise<SimulatorProcess> {
  const other = startOtherSelf(import.meta.url);
  const ask = <Answer>(question: Question): Promise<Answer> => other.ask(question);
  const url = await ask<string>({ ask: 'start', options });
  return {
    url,
    addAthletes: (counts) => ask({ ask: 'athletes', counts }),
    takeCalls: () => ask({ ask: 'calls' }),
    arrivals: async (count) => {
      const error = await ask<string>({ ask: 'arrivals', count });
      if (error) throw new Error(error);
    },
    stop: () => other.stop(),
  };
}

// The other side: this same file as the child process.
if (runsAsOtherSelf(import.meta.url)) {
  let simulator: Simulator | undefined;
  process.on('message', async (question: Question) => process.send?.(await answerTo(question)));

  const answerTo = async (question: Question): Promise<unknown> => {
    if (question.ask === 'start') {
      simulator = await startSimulator({ shortLimit: 100_000_000, dailyLimit: 100_000_000, ...question.options });
      return simulator.url;
    }
    const running = simulator as Simulator;
    if (question.ask === 'athletes') return question.counts.map((count) => addAthlete(running, count));
    if (question.ask === 'arrivals') {
      let arrived = 0;
      return running
        .waitForArrival(() => {
          arrived += 1;
          return arrived >= question.count;
        }, ARRIVALS_WITHIN_MS)
        .then(
          () => '',
          (error: Error) => error.message,
        );
    }
    const calls = running.calls
      .filter((call) => call.counted)
      .map(({ at, status, activityId, athleteId }): LoggedCall => ({ at, status, activityId, athleteId }));
    running.clearCalls();
    return calls;
  };
}

function addAthlete(simulator: Simulator, activities: number): BenchAthlete {
  const { id } = simulator.addAthlete();
  const { accessToken, refreshToken, expiresAt } = simulator.grantTokens(id);
  const activityIds = Array.from({ length: activities }, () => simulator.addActivity(id).id);
  return { athleteId: id, accessToken, refreshToken, expiresAt, activityIds };
}
