export interface Subscription {
  readonly id: number;
  readonly callbackUrl: string;
  /** Epoch milliseconds of the provider's clock. */
  readonly createdAt: number;
}

/** The application's push subscriptions; the provider allows one. */
export class SubscriptionRegistry {
  readonly #now: () => number;
  readonly #subscriptions = new Map<number, Subscription>();
  #nextId = 120_475;

  constructor(now: () => number) {
    this.#now = now;
  }

  list(): Subscription[] {
    return [...this.#subscriptions.values()];
  }

  /** Adds a subscription without asking the callback. */
  add(callbackUrl: string): Subscription {
    const subscription = { id: this.#nextId++, callbackUrl, createdAt: this.#now() };
    this.#subscriptions.set(subscription.id, subscription);
    return subscription;
  }

  /** Removes a subscription; false when there is none of that id. */
  remove(id: number): boolean {
    return this.#subscriptions.delete(id);
  }
}
