import { expect } from '@jest/globals';
import type { SyncProgress } from '../../src/flows/sync-progress.ts';
import { type Rig, startRig } from './service.ts';
import { until } from './until.ts';

/** A bulk sync as the admin interface shows it. */
export type Sync = SyncProgress & { url: string };

/** A rig that requests bulk syncs through the admin interface. */
export interface SyncRig extends Rig {
  /** Starts a sync. @param path of the endpoint @returns where the sync is shown */
  beginSync(path: string, body?: object): Promise<string>;
  /** Resolves when the sync fits. */
  untilSync(url: string, fits: (sync: Sync) => boolean): Promise<Sync>;
  /** Syncs one athlete, to the end. */
  syncAthlete(athleteId: string, body?: object): Promise<Sync>;
  /** How often the activity was fetched from the provider. */
  detailCalls(activityId: string): number;
}

export const hasEnded = ({ state }: Sync) => state !== 'running' && state !== 'waiting';

/** @param overrides of the configuration */
export async function startSyncRig(overrides: Record<string, string> = {}): Promise<SyncRig> {
  const rig = await startRig({
    env: {
      SERVICE_ROLES: 'web,fetch', // no pictures: there are many activities
      FETCH_BACKOFF_BASE_MS: '20',
      FETCH_CONCURRENCY: '6',
      FETCH_TIMEOUT_MS: '2000',
      ...overrides,
    },
  });
  const beginSync: SyncRig['beginSync'] = async (path, body = {}) => {
    const answer = await rig.admin(path, { method: 'POST', body: JSON.stringify(body) });
    const begun = (await answer.json()) as { id: string; url: string };
    expect(answer.status).toBe(202);
    expect(begun).toEqual({ id: expect.stringMatching(/^\d+$/), url: `/api/admin/syncs/${begun.id}` });
    expect(answer.headers.get('location')).toBe(begun.url);
    return begun.url;
  };
  const untilSync: SyncRig['untilSync'] = async (url, fits) => {
    let sync: Sync | undefined;
    const looksRight = async () => {
      sync = (await (await rig.admin(url)).json()) as Sync;
      return fits(sync);
    };
    await until(looksRight, `what is awaited of the sync ${url}`);
    return sync as Sync;
  };
  return {
    ...rig,
    beginSync,
    untilSync,
    syncAthlete: async (athleteId, body) =>
      untilSync(await beginSync(`/api/admin/athletes/${athleteId}/sync`, body), hasEnded),
    detailCalls: (activityId) => rig.simulator.calls.filter((call) => call.activityId === activityId).length,
  };
}
