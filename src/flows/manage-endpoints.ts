import { randomBytes, randomUUID } from 'node:crypto';
import type { PgBoss } from 'pg-boss';
import type { Int64 } from '../domain/int64.ts';
import type { Database, Queryable } from '../infra/database.ts';
import { notify } from '../infra/notify.ts';
import type { OutboundGuard } from '../infra/outbound-address.ts';
import type { SecretBox } from '../infra/secret-box.ts';
import { deleteDeliveryJobs } from '../queue/delivery-queue.ts';
import { databaseTime } from '../store/database-time.ts';
import {
  findAttempted,
  findHeadsAmong,
  findHeadsOfEndpoint,
  insertDelivery,
  insertReplay,
  takeJobs,
} from '../store/delivery-log.ts';
import {
  deleteEndpointRow,
  type EndpointChange,
  type EndpointRow,
  type EndpointSettings,
  findEndpoint,
  lockEndpoint,
  rotateSecret,
  saveEndpoint,
  setEnabled,
  updateEndpoint,
} from '../store/endpoints.ts';
import { disableEndpoint, startLines } from './delivery-lines.ts';

/** What an endpoint is sent by POST …/test. */
export const TEST_TYPE = 'endpoint.test';
/** The limits for endpoints, and for changes that one replay sends again. */
export const MAX_ENDPOINTS = 2000;
export const MAX_REPLAYED = 10_000;
const OVERLAP_MS = 24 * 3_600_000;

/** The application reached a limit; the message says what to do. */
export class EndpointLimitError extends Error {
  override name = 'EndpointLimitError';
  readonly code = 'ENDPOINT_LIMIT';
}

/** What an application does with its endpoints. undefined: there is no such endpoint (or attempt). */
export interface Endpoints {
  /** @throws ForbiddenAddressError, EndpointLimitError */
  create(settings: EndpointSettings): Promise<EndpointRow & { secret: string }>;
  /** @throws ForbiddenAddressError */
  update(id: Int64, change: EndpointChange & { enabled?: boolean | undefined }): Promise<EndpointRow | undefined>;
  remove(id: Int64): Promise<boolean>;
  /** A new secret; the former one signs too for a day. */
  rotate(id: Int64): Promise<{ secret: string; formerUntil: Date } | undefined>;
  /** Each queues a delivery. @returns how many, and the id of the message that a test sends */
  sendTest(id: Int64): Promise<{ changeId: string } | undefined>;
  /** @throws EndpointLimitError */
  replay(id: Int64, since: Date): Promise<number | undefined>;
  resend(id: Int64, attemptId: Int64): Promise<{ changeId: string } | undefined>;
}

export function createEndpoints(deps: {
  database: Database;
  boss: PgBoss;
  secretBox: SecretBox;
  guard: OutboundGuard;
}): Endpoints {
  const { database, boss, secretBox, guard } = deps;

  /** Runs a change of one endpoint while nothing is dispatched to it or settled of it. */
  const onLocked = <T>(id: Int64, work: (tx: Queryable) => Promise<T>): Promise<T | undefined> =>
    database.transaction(async (tx) => ((await lockEndpoint(tx, id)) ? work(tx) : undefined));

  const start = async (tx: Queryable, made: readonly Int64[]) => startLines(boss, tx, await findHeadsAmong(tx, made));

  return {
    create: async (settings) => {
      await guard.check(settings.url);
      const secret = makeSecret();
      const row = await saveEndpoint(database, { ...settings, sealedSecret: secretBox.seal(secret) }, MAX_ENDPOINTS);
      if (!row)
        throw new EndpointLimitError(
          `The limit of ${MAX_ENDPOINTS} endpoints is reached. Delete one: DELETE /api/v1/endpoints/{id}.`,
        );
      return { ...row, secret };
    },
    update: async (id, { enabled, ...settings }) => {
      if (settings.url !== undefined) await guard.check(settings.url);
      return onLocked(id, async (tx) => {
        await updateEndpoint(tx, id, settings);
        if (enabled === false) await disableEndpoint(boss, tx, id, 'request');
        if (enabled === true && (await setEnabled(tx, id)))
          await startLines(boss, tx, await findHeadsOfEndpoint(tx, id));
        if (enabled === true) await notify(tx, 'change');
        return findEndpoint(tx, id);
      });
    },
    remove: async (id) =>
      (await onLocked(id, async (tx) => {
        await deleteDeliveryJobs(boss, tx, await takeJobs(tx, id));
        await deleteEndpointRow(tx, id);
        return true;
      })) ?? false,
    rotate: async (id) => {
      const secret = makeSecret();
      const formerUntil = await rotateSecret(database, id, secretBox.seal(secret), OVERLAP_MS);
      return formerUntil && { secret, formerUntil };
    },
    sendTest: (id) =>
      onLocked(id, async (tx) => {
        const changeId = randomUUID();
        const at = await databaseTime(tx);
        const noSubject = { cursor: null, athleteId: null, externalId: null, activityId: null };
        await start(tx, [await insertDelivery(tx, id, { changeId, type: TEST_TYPE, at, ...noSubject })]);
        return { changeId };
      }),
    replay: (id, since) =>
      onLocked(id, async (tx) => {
        const made = await insertReplay(tx, id, since, MAX_REPLAYED);
        if (!made)
          throw new EndpointLimitError(
            `More than ${MAX_REPLAYED} changes would be sent again. Send a later since, or read the changes: GET /api/v1/changes.`,
          );
        await start(tx, made);
        return made.length;
      }),
    resend: (id, attemptId) =>
      onLocked(id, async (tx) => {
        const attempted = await findAttempted(tx, id, attemptId);
        if (!attempted) return undefined;
        // One that still waits is sent anyway.
        if (attempted.state !== 'waiting') await start(tx, [await insertDelivery(tx, id, attempted)]);
        return { changeId: attempted.changeId };
      }),
  };
}

function makeSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`;
}
