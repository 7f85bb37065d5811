import { type ClockedRig, startClockedRig } from './clocked-rig.ts';

const HOUR = 3_600_000;

/** No sweep is running, no athlete is left to visit, and one has finished. */
export const SWEPT = `SELECT FROM list_walk WHERE kind = 'polling' AND state = 'finished' AND finished_at > '-infinity'
  AND NOT EXISTS (SELECT FROM list_visit WHERE walk_id = id)`;

/** A rig that polls, after its first sweep; an athlete who connects for the first time has been polled. */
export async function startPollingRig(env: Record<string, string> = {}): Promise<ClockedRig> {
  const rig = await startClockedRig({
    SERVICE_ROLES: 'web,fetch,polling',
    PROVIDER_AUTO_SYNC_ENABLED: 'true',
    PROVIDER_RATE_LIMIT_CAPACITY: '10000',
    ...env,
  });
  const { untilRow, untilSwept } = stepsOf(() => rig);
  await untilSwept(0);
  return {
    ...rig,
    connectAthlete: async (name, id) => {
      const athleteId = await rig.connectAthlete(name, id);
      if (id === undefined) await untilRow(SWEPT);
      return athleteId;
    },
  };
}

/** The steps of a test that polls. @param rigNow gives the rig, which need not be started yet */
export function stepsOf(rigNow: () => ClockedRig) {
  const listCalls = (athleteId: string) =>
    rigNow().simulator.calls.filter(
      (call) => call.path === '/api/v3/athlete/activities' && call.athleteId === athleteId,
    );

  /** Lets time pass in small steps until a row is there: paces and short waits fall due as usual. */
  async function untilRow(query: string, values: unknown[] = []): Promise<void> {
    while ((await rigNow().service.database.query(query, values)).length === 0) {
      await rigNow().advance(50);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  /** Resolves when a sweep has finished that began at `fromMs` or later. */
  const untilSwept = (fromMs: number) =>
    untilRow(`${SWEPT} AND finished_at >= to_timestamp($1::float8)`, [fromMs / 1000]);

  /** Resolves when the activity's job has ended. */
  const untilDone = (id: string, condition = `v.status = 'done'`) =>
    untilRow(
      `SELECT FROM "ActivityFetchJob" v JOIN activity_fetch_job r USING (id) WHERE v."activityId" = $1 AND ${condition}`,
      [id],
    );

  /** Lets the polling interval pass, and waits for the sweep. */
  async function sweep(intervalMs = 4 * HOUR): Promise<void> {
    await rigNow().advance(intervalMs);
    await untilSwept(rigNow().clock.now());
  }

  return { listCalls, untilRow, untilSwept, untilDone, sweep };
}
