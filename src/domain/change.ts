/** The changes that are sent to endpoints. */
export const DELIVERED_TYPES = [
  'activity.created',
  'activity.updated',
  'activity.deleted',
  'activity.thumbnail',
  'athlete.connected',
  'athlete.reconnect_required',
  'athlete.disconnected',
] as const;
export type DeliveredType = (typeof DELIVERED_TYPES)[number];

/** Every change of the feed; an endpoint's end is reported in the feed only. */
export const CHANGE_TYPES = [...DELIVERED_TYPES, 'endpoint.disabled'] as const;
export type ChangeType = (typeof CHANGE_TYPES)[number];
