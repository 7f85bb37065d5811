import type { Rig } from './service.ts';

/** Resolves with an activity's stored picture; the service's own notification is the signal. */
export async function untilThumbnail(rig: Rig, activityId: string, timeoutMs = 10_000): Promise<{ png: Buffer }> {
  const { database, hub } = rig.service;
  const stored = Promise.withResolvers<{ png: Buffer }>();
  const look = () => {
    database
      .query<{ png: Buffer }>('SELECT png FROM thumbnail WHERE activity_id = $1', [activityId])
      .then(([found]) => found && stored.resolve(found), stored.reject);
  };
  const unsubscribe = hub.on('activity', look);
  const timer = setTimeout(() => stored.reject(new Error(`Activity ${activityId} has no thumbnail`)), timeoutMs);
  try {
    look();
    return await stored.promise;
  } finally {
    clearTimeout(timer);
    unsubscribe();
  }
}
