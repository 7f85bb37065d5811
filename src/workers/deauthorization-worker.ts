import type { Clock } from '../domain/clock.ts';
import { type ConfirmDependencies, confirmDeauthorization } from '../flows/confirm-deauthorization.ts';
import type { NotifyHub } from '../infra/notify-hub.ts';
import { ClaimLostError } from '../queue/claims.ts';
import { claimDeauthorization, type DeauthorizationRun } from '../queue/deauthorization-queue.ts';
import { WorkerLoop } from './worker-loop.ts';

const COMPONENT = 'deauthorization';
const POLL_INTERVAL_MS = 10_000;

/** Confirms withdrawals of access, one at a time. */
export class DeauthorizationWorker {
  readonly #deps: ConfirmDependencies & { clock: Clock; hub: NotifyHub };
  readonly #loop: WorkerLoop<DeauthorizationRun>;
  #unsubscribe: (() => void) | undefined;

  constructor(deps: ConfirmDependencies & { clock: Clock; hub: NotifyHub }) {
    this.#deps = deps;
    this.#loop = new WorkerLoop<DeauthorizationRun>({
      ...deps,
      name: COMPONENT,
      slots: 1,
      pollIntervalMs: POLL_INTERVAL_MS,
      claim: async () => {
        const job = await claimDeauthorization(deps.boss);
        return { jobs: job ? [job] : [] };
      },
      run: (run) => this.#run(run),
    });
  }

  start(): void {
    this.#unsubscribe = this.#deps.hub.on('athlete', () => this.#loop.wake());
    this.#loop.start();
  }

  async stop(graceMs: number): Promise<void> {
    this.#unsubscribe?.();
    await this.#loop.stop(graceMs);
  }

  async #run(run: DeauthorizationRun): Promise<void> {
    const result = await confirmDeauthorization(this.#deps, run).catch((error: Error) => {
      if (error instanceof ClaimLostError) return undefined; // another run has it, or the athlete was erased
      throw error;
    });
    if (!result) return;
    // No id of an athlete who was erased: the log must not keep it.
    const fields = { component: COMPONENT, ...(result === 'erased' ? {} : { athleteId: run.athleteId }) };
    this.#deps.logger.log(result === 'retry' ? 'warn' : 'info', `deauthorization ${result}`, fields);
  }
}
