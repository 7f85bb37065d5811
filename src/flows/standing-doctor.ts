import type { Int64 } from '../domain/int64.ts';
import type { Logger } from '../infra/logger.ts';
import type { Finding } from './finding.ts';
import { type DoctorDependencies, examineSubscription } from './subscription-doctor.ts';

/** What the doctor found, and when (by the service's clock). */
export interface Examination {
  ok: boolean;
  findings: Finding[];
  at: Date;
}

/** The subscription's doctor with its last findings, so that showing them costs no call to the provider. */
export interface Doctor {
  /** Re-runs the checks. */
  examine(): Promise<Examination>;
  /**
   * The last findings. Older ones, and those made for other known subscriptions, are renewed in the background.
   * @param known the subscriptions that are known now
   * @returns undefined when the first checks take longer than a reader should wait
   */
  latest(known: readonly Int64[]): Promise<Examination | undefined>;
}

const MAX_AGE_MS = 600_000;
const FIRST_WAIT_MS = 2500;

export function createDoctor(deps: DoctorDependencies & { logger: Logger }): Doctor {
  let last: Examination | undefined;
  let lastKnown = '';
  let running: Promise<unknown> | undefined;

  const examine = async (): Promise<Examination> => {
    const at = new Date(deps.now());
    last = { ...(await examineSubscription(deps)), at };
    return last;
  };
  const examineInBackground = (): Promise<unknown> => {
    running ??= examine()
      .catch((error: Error) =>
        deps.logger.warn('subscription checks failed', { component: 'doctor', error: error.message }),
      )
      .finally(() => {
        running = undefined;
      });
    return running;
  };

  return {
    examine,
    latest: async (known) => {
      const isSame = last !== undefined && lastKnown === known.join();
      if (isSame && last && deps.now() - last.at.getTime() < MAX_AGE_MS) return last;
      lastKnown = known.join();
      const examined = examineInBackground();
      // After a change of the subscription the old findings would be wrong: a reader waits a moment for new ones.
      await atMost(isSame ? 0 : FIRST_WAIT_MS, examined);
      return last;
    },
  };
}

async function atMost(ms: number, work: Promise<unknown>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  await Promise.race([work, promise]);
  clearTimeout(timer);
}
