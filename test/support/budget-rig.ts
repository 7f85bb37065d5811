import { TestClock } from 'pg-boss';
import { createBoss } from '../../src/infra/boss.ts';
import type { Database } from '../../src/infra/database.ts';
import { createSilentLogger } from '../../src/infra/logger.ts';
import { type Budget, createBudget } from '../../src/queue/budget.ts';
import { createTestDatabase, openTestDatabase } from './database.ts';

/** The budget alone, on a database whose clock the test sets. */
export interface BudgetRig {
  budget: Budget;
  database: Database;
  clock: TestClock;
  /** Takes calls until one is refused, `most` at most. @returns how many were granted */
  takeAll(reason: 'webhook' | 'manual' | 'polling', most?: number): Promise<number>;
  /** Moves time to so many milliseconds after the start of the first window. */
  goTo(ms: number): Promise<void>;
  close(): Promise<void>;
}

export const WINDOW_MS = 900_000;
/** The start of a window, in the middle of a UTC day. */
export const WINDOW_START = Date.parse('2025-05-06T12:00:00Z');

export async function startBudgetRig(capacity = 600): Promise<BudgetRig> {
  const testDatabase = await createTestDatabase();
  const logger = createSilentLogger();
  const clock = new TestClock(WINDOW_START + 60_000);
  const database = openTestDatabase(testDatabase.url, 4);
  const boss = createBoss({ database, clock, logger, migrate: false, supervise: false });
  await boss.start();
  const budget = createBudget(database);
  await budget.configure({ capacity, intervalMs: WINDOW_MS });
  return {
    budget,
    database,
    clock,
    takeAll: async (reason, most = 10_000) => {
      for (let granted = 0; granted < most; granted += 1) if (await budget.take(reason)) return granted;
      return most;
    },
    goTo: (ms) => clock.setTime(WINDOW_START + ms),
    close: async () => {
      await boss.stop({ graceful: false, close: false });
      await database.close();
      await testDatabase.drop();
    },
  };
}
