import { MigrationError } from './migration-error.ts';

/** The migrations of release 0.1, which the baseline replaced. */
export const RELEASE_0_1_MIGRATIONS: readonly string[] = [
  '0001-activities-and-jobs.sql',
  '0002-schedule-and-budget.sql',
  '0003-budget-functions.sql',
  '0004-lanes.sql',
  '0005-requests.sql',
  '0006-activity-fetch-job-view.sql',
  '0007-admin.sql',
  '0008-syncs.sql',
  '0009-one-round-trip.sql',
];

/**
 * Whether release 0.1 made a database.
 * @param applied the names of the migrations that it has
 * @throws MigrationError when it has only some of them: no upgrade starts there
 */
export function isOfRelease01(applied: readonly string[]): boolean {
  const count = RELEASE_0_1_MIGRATIONS.filter((name) => applied.includes(name)).length;
  if (count > 0 && count < RELEASE_0_1_MIGRATIONS.length) {
    throw new MigrationError(
      `The database has ${count} of the ${RELEASE_0_1_MIGRATIONS.length} migrations of release 0.1. Run "npm run migrate" of release 0.1, then that of this release.`,
    );
  }
  return count > 0;
}
