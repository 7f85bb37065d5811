import { requestFetches } from '../../src/queue/requests.ts';
import type { Rig } from './service.ts';

let nextId = 6_000_000_000_000_000;

/** Requests that many fetches of one athlete at once, as polling does. */
export async function putJobs({ service }: Rig, athleteId: string, many: number): Promise<void> {
  const requests = Array.from({ length: many }, () => ({
    activityId: String(nextId++),
    athleteId,
    reason: 'polling' as const,
    force: false,
  }));
  await service.database.transaction((tx) => requestFetches(service.boss, tx, requests));
}
