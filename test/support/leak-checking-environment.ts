import type { Circus } from '@jest/types';
import { TestEnvironment } from 'jest-environment-node';
import { type LeakCheck, startLeakCheck } from './leak-check.ts';

/** Jest's Node environment, which also fails a test file that leaves something open after its last hook. */
// biome-ignore lint/style/noDefaultExport: Jest takes the default export
export default class LeakCheckingEnvironment extends TestEnvironment {
  private leakCheck: LeakCheck | undefined;

  override async setup(): Promise<void> {
    await super.setup();
    this.leakCheck = startLeakCheck();
  }

  async handleTestEvent(event: Circus.AsyncEvent, state: Circus.State): Promise<void> {
    if (event.name !== 'run_finish') return;
    const leaks = (await this.leakCheck?.findLeaks()) ?? [];
    if (leaks.length === 0) return;
    const error = new Error(
      `This test file left open: ${leaks.join('; ')}. Close what its tests open, in the test or in afterAll.`,
    );
    // The place where the leak is reported from would only mislead.
    error.stack = error.message;
    state.unhandledErrors.push(error);
  }

  override async teardown(): Promise<void> {
    this.leakCheck?.end();
    await super.teardown();
  }
}
