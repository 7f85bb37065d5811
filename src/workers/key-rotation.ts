import type { Clock } from '../domain/clock.ts';
import { resealEndpointSecrets } from '../flows/reseal-secrets.ts';
import { resealOutdatedTokens } from '../flows/reseal-tokens.ts';
import type { Database } from '../infra/database.ts';
import type { Logger } from '../infra/logger.ts';
import type { SecretBox } from '../infra/secret-box.ts';
import { Repeater } from './repeater.ts';

const COMPONENT = 'key-rotation';
const EVERY_MS = 3_600_000;

/**
 * Brings every athlete's tokens and every endpoint's secret under the newest key of TOKEN_ENCRYPTION_KEY: at the start, and again each
 * hour, because a replica that still runs with the older order of keys may seal with another one in the meantime.
 */
export class KeyRotation {
  readonly #options: { database: Database; secretBox: SecretBox; clock: Clock; logger: Logger };
  readonly #stopping = new AbortController();
  readonly #repeater: Repeater;

  constructor(options: { database: Database; secretBox: SecretBox; clock: Clock; logger: Logger }) {
    this.#options = options;
    const { clock, logger } = options;
    this.#repeater = new Repeater({ name: COMPONENT, everyMs: EVERY_MS, run: () => this.#reseal(), clock, logger });
  }

  start(): void {
    this.#repeater.start();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#repeater.stop();
  }

  async #reseal(): Promise<void> {
    const { database, secretBox, logger } = this.#options;
    const { resealed, unreadable } = await resealOutdatedTokens(database, secretBox, this.#stopping.signal);
    if (resealed > 0)
      logger.info('tokens re-encrypted with the newest key', {
        component: COMPONENT,
        athletes: resealed,
      });
    if (unreadable > 0)
      logger.error(
        'no configured key opens the stored tokens of some athletes; add the former key after the newest in TOKEN_ENCRYPTION_KEY, or they must reconnect',
        { component: COMPONENT, athletes: unreadable },
      );
    const endpoints = await resealEndpointSecrets(database, secretBox);
    if (endpoints.resealed > 0)
      logger.info('endpoint secrets re-encrypted with the newest key', {
        component: COMPONENT,
        endpoints: endpoints.resealed,
      });
    if (endpoints.unreadable > 0)
      logger.error(
        'no configured key opens the secrets of some endpoints; add the former key after the newest in TOKEN_ENCRYPTION_KEY, or rotate them',
        { component: COMPONENT, endpoints: endpoints.unreadable },
      );
  }
}
