import { type EntityId, toEntityId } from './entity-id.ts';
import type { TokenRegistry } from './token-registry.ts';
import type { DeliveryResult, WebhookEvent, WebhookSender } from './webhook-sender.ts';
import type { ActivityFields, NewActivity, World } from './world.ts';

/** Changes the world and notifies the subscriber, as the real provider does. `event` overrides the event's fields. */
export class Announcer {
  readonly #world: World;
  readonly #tokens: TokenRegistry;
  readonly #sender: WebhookSender;

  constructor(world: World, tokens: TokenRegistry, sender: WebhookSender) {
    this.#world = world;
    this.#tokens = tokens;
    this.#sender = sender;
  }

  async createActivity(
    athleteId: EntityId,
    fields?: NewActivity,
    event?: WebhookEvent,
  ): Promise<DeliveryResult & { id: string }> {
    const activity = this.#world.addActivity(athleteId, fields);
    const subject = { object_id: activity.id, owner_id: activity.athleteId };
    return { id: activity.id, ...(await this.#sender.deliver({ aspect_type: 'create', ...subject, ...event })) };
  }

  async updateActivity(id: EntityId, patch: ActivityFields, event?: WebhookEvent): Promise<DeliveryResult> {
    const activity = this.#world.updateActivity(id, patch);
    const subject = { object_id: activity.id, owner_id: activity.athleteId };
    return this.#sender.deliver({ aspect_type: 'update', ...subject, updates: announcedChanges(patch), ...event });
  }

  async deleteActivity(id: EntityId, event?: WebhookEvent): Promise<DeliveryResult> {
    const activity = this.#world.deleteActivity(id);
    const subject = { object_id: activity.id, owner_id: activity.athleteId };
    return this.#sender.deliver({ aspect_type: 'delete', ...subject, ...event });
  }

  /** Ends all the athlete's tokens. */
  async deauthorize(athleteId: EntityId, event?: WebhookEvent): Promise<DeliveryResult> {
    const id = toEntityId(athleteId);
    this.#tokens.revoke(id);
    const subject = { object_type: 'athlete', object_id: id, owner_id: id };
    return this.#sender.deliver({ ...subject, aspect_type: 'update', updates: { authorized: 'false' }, ...event });
  }
}

/** The changes that the provider announces: only title, type and privacy. */
function announcedChanges(patch: ActivityFields): Record<string, string> {
  return {
    ...(patch.name === undefined ? {} : { title: patch.name }),
    ...(patch.sportType === undefined ? {} : { type: patch.sportType }),
    ...(patch.private === undefined ? {} : { private: String(patch.private) }),
  };
}
