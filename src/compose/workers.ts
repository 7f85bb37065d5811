import { backoffMs } from '../domain/backoff.ts';
import { createEraseAthlete } from '../flows/erase-athlete.ts';
import { createListPage } from '../flows/list-page.ts';
import { createOutboundClient, type OutboundClient } from '../infra/outbound-client.ts';
import { budgetMargins } from '../queue/budget.ts';
import { createCompleter } from '../queue/completer.ts';
import { createTileSource, type TileSource } from '../thumbnail/tile-source.ts';
import { DeauthorizationWorker } from '../workers/deauthorization-worker.ts';
import { DeliveryWorker } from '../workers/delivery-worker.ts';
import { FetchWorker, holdMsOf } from '../workers/fetch-worker.ts';
import { HistoryRecorder } from '../workers/history-recorder.ts';
import { KeyRotation } from '../workers/key-rotation.ts';
import { ListWorker } from '../workers/list-worker.ts';
import { MetricsCollector } from '../workers/metrics-collector.ts';
import { Rescuer } from '../workers/rescuer.ts';
import { Retention } from '../workers/retention.ts';
import { ThumbnailWorker } from '../workers/thumbnail-worker.ts';
import type { Parts } from './parts.ts';

/** Something that works in the background of a process. */
export interface Worker {
  start(): void;
  /** @param graceMs for running jobs to finish */
  stop(graceMs: number): Promise<void>;
}

const TILES_KEPT_BYTES = 64 * 1024 * 1024;
const TILE_TIMEOUT_MS = 5000;
const TILE_PAUSE_MS = 30_000;
const DELIVERY_TIMEOUT_MS = 10_000;

/** The workers of a process's roles, the recorder of what they count, and what they hold open. */
export function createWorkers(parts: Parts): { workers: Worker[]; recorder: HistoryRecorder; close(): void } {
  const { config, has, random } = parts;
  const backoff = { baseMs: config.FETCH_BACKOFF_BASE_MS, capMs: config.FETCH_BACKOFF_CAP_MS };
  const listPage = createListPage(parts);
  const workers: Worker[] = [new MetricsCollector({ ...parts, readsQueue: has('web') || has('fetch') })];
  if (has('web') || has('fetch'))
    workers.push(
      new Retention({ ...parts, days: config.JOB_RETENTION_DAYS, changeDays: config.CHANGE_RETENTION_DAYS }),
    );
  if (has('web') || has('fetch')) workers.push(new KeyRotation(parts));
  if (has('fetch')) {
    const completer = createCompleter({
      ...parts,
      cooldownMs: config.PROVIDER_ATHLETE_COOLDOWN,
      backoffMs: (attempts) => backoffMs(attempts, backoff, random()),
    });
    const fetchWorker = new FetchWorker({
      ...parts,
      completer,
      grantValidMs: budgetMargins(config.PROVIDER_RATE_LIMIT_INTERVAL).lagMs,
      callWithinMs: config.FETCH_TIMEOUT_MS,
    });
    const inHand = () => fetchWorker.inHand;
    workers.push(new DeauthorizationWorker({ ...parts, erase: createEraseAthlete(parts) }));
    workers.push(fetchWorker, new Rescuer({ ...parts, completer, inHand, holdMs: holdMsOf(config) }));
  }
  const client = has('delivery') ? openOutboundClient(parts) : undefined;
  if (client) workers.push(new DeliveryWorker({ ...parts, client, slots: config.DELIVERY_CONCURRENCY }));
  const map = has('thumbnail') ? openMap(parts) : undefined;
  if (has('thumbnail')) {
    workers.push(new ThumbnailWorker({ ...parts, sizePx: config.THUMBNAIL_SIZE, debug: config.THUMBNAIL_DEBUG, map }));
  }
  if (has('polling') || has('fetch')) {
    const stopAfter = config.POLLING_STOP_AFTER;
    workers.push(new ListWorker({ ...parts, listPage, backoff, random, stopAfter, polls: has('polling') }));
  }
  const close = () => {
    map?.close();
    client?.close();
  };
  return { workers, recorder: new HistoryRecorder(parts), close };
}

function openOutboundClient({ guard, userAgent }: Parts): OutboundClient {
  return createOutboundClient({ guard, userAgent, timeoutMs: DELIVERY_TIMEOUT_MS });
}

function openMap({ config, userAgent }: Parts): TileSource | undefined {
  if (config.THUMBNAIL_MAP_SOURCE === 'none') return undefined;
  return createTileSource({
    urlTemplate: config.THUMBNAIL_MAP_SOURCE,
    userAgent,
    cacheMaxBytes: TILES_KEPT_BYTES,
    timeoutMs: TILE_TIMEOUT_MS,
    pauseMs: TILE_PAUSE_MS,
  });
}
