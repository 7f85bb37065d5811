import type { FetchRequest } from '../../src/domain/job.ts';
import { type RequestResult, requestFetches } from '../../src/queue/requests.ts';
import type { Rig } from './service.ts';

/** Requests a fetch as polling and operators do. */
export async function request(
  rig: Rig,
  activityId: string,
  athleteId: string,
  reason: FetchRequest['reason'],
  force = false,
): Promise<RequestResult> {
  const { boss, database } = rig.service;
  const [result] = await database.transaction((tx) =>
    requestFetches(boss, tx, [{ activityId, athleteId, reason, force }]),
  );
  return result as RequestResult;
}
