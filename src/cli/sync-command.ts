import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import type { Int64 } from '../domain/int64.ts';
import type { SyncProgress } from '../flows/sync-progress.ts';
import { CommandError, EXIT } from './command-error.ts';
import { ServiceAwayError } from './service-client.ts';
import { type SyncInput, toId, toSyncInput } from './sync-input.ts';
import { shareOf, toProgressLine } from './sync-progress-line.ts';
import { openSyncService, type SyncService } from './sync-service.ts';
import { type Terminal, toTable } from './terminal.ts';

const LOOK_EVERY_MS = 500;
const AWAY_PATIENCE_MS = 120_000;

interface SyncOptions {
  after?: string;
  before?: string;
  force?: true;
  wait?: true;
  follow?: string;
  cancel?: string;
  list?: true;
  url?: string;
  json?: boolean;
}

/** `sync`: begins, follows, lists and cancels bulk syncs. */
export function addSyncCommand(program: Command, terminal: Terminal): void {
  program
    .command('sync')
    .description('bulk sync of one athlete, or of all: read the lists, fetch activities not stored yet')
    .argument('[athleteId]', 'one athlete (default: all)')
    .option('--after <time>', 'only activities that start later: ISO 8601 or epoch seconds')
    .option('--before <time>', 'only activities that start earlier (default: now)')
    .option('--force', 're-fetch activities already stored')
    .option('--wait', 'show the progress until it has ended')
    .option('--follow <syncId>', 'show the progress of a sync that was started before')
    .option('--cancel <syncId>', 'cancel a sync, and remove those of its jobs that have not started')
    .option('--list', 'list the newest syncs')
    .option('--url <url>', 'address of the running service (default: NEXT_PUBLIC_BASE_URL, then PORT on this machine)')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      `
The service does the work, so a sync continues when this command is stopped, or the service restarted.

Examples:
  npm run sync -- --wait
  npm run sync -- 1234 --after 2025-01-01 --wait
  npm run sync -- 1234 --force
  npm run sync -- --follow 7`,
    )
    .action(async (athleteId: string | undefined, options: SyncOptions) => {
      refuseMixture(athleteId, options);
      const wanted = {
        begun: toSyncInput(athleteId, options),
        follow: options.follow === undefined ? undefined : toId('--follow', options.follow),
        cancel: options.cancel === undefined ? undefined : toId('--cancel', options.cancel),
      };
      const service = await openSyncService(options.url);
      try {
        await run(service, wanted, options, terminal);
      } finally {
        await service.close();
      }
    });
}

function refuseMixture(athleteId: string | undefined, options: SyncOptions): void {
  const others = [options.follow !== undefined, options.cancel !== undefined, options.list].filter(Boolean).length;
  const begins =
    athleteId !== undefined || options.after !== undefined || options.before !== undefined || options.force === true;
  if (others > 1 || (others === 1 && begins))
    throw new CommandError('Either start a sync, or use one of --follow, --cancel and --list.', EXIT.usage);
}

async function run(
  service: SyncService,
  { begun, follow: followed, cancel }: { begun: SyncInput; follow: Int64 | undefined; cancel: Int64 | undefined },
  options: SyncOptions,
  terminal: Terminal,
): Promise<void> {
  const show = (sync: SyncProgress) => (options.json ? terminal.printJson(sync) : terminal.print(toProgressLine(sync)));
  if (options.list) return printList(await service.list(), options, terminal);
  if (cancel !== undefined) return show(await service.cancel(cancel));
  if (followed !== undefined) return show(await follow(service, followed, terminal));
  const id = await service.begin(begun);
  if (service.remark) terminal.note(service.remark);
  if (options.wait) return show(await follow(service, id, terminal));
  if (options.json) return terminal.printJson({ id });
  terminal.print(`Sync ${id} has started. Follow it: npm run sync -- --follow ${id}`);
}

/** Shows the progress until the sync has ended; waits for a service that restarts. */
async function follow(service: SyncService, id: string, terminal: Terminal): Promise<SyncProgress> {
  const interrupted = new AbortController();
  const interrupt = () => interrupted.abort();
  process.once('SIGINT', interrupt);
  let said = -1;
  let awaySince: number | undefined;
  try {
    for (;;) {
      const sync = await lookAt(service, id, awaySince);
      awaySince = sync === undefined ? (awaySince ?? Date.now()) : undefined;
      if (sync && terminal.isInteractive) terminal.redraw(toProgressLine(sync));
      else if (sync && Math.floor(shareOf(sync) * 10) > said) {
        said = Math.floor(shareOf(sync) * 10);
        terminal.note(toProgressLine(sync));
      }
      if (sync?.finishedAt) return ended(sync);
      await delay(LOOK_EVERY_MS, undefined, { signal: interrupted.signal });
    }
  } catch (error) {
    if (!interrupted.signal.aborted) throw error;
    throw new CommandError(`Stopped following. The sync continues; follow it again: npm run sync -- --follow ${id}`);
  } finally {
    if (terminal.isInteractive) terminal.redraw('');
    process.off('SIGINT', interrupt);
  }
}

async function lookAt(
  service: SyncService,
  id: string,
  awaySince: number | undefined,
): Promise<SyncProgress | undefined> {
  try {
    return await service.show(id);
  } catch (error) {
    if (!(error instanceof ServiceAwayError)) throw error;
    if (Date.now() - (awaySince ?? Date.now()) > AWAY_PATIENCE_MS) throw error;
    return undefined;
  }
}

function ended(sync: SyncProgress): SyncProgress {
  if (sync.state !== 'finished') process.exitCode = EXIT.failed;
  return sync;
}

function printList(syncs: readonly SyncProgress[], options: SyncOptions, terminal: Terminal): void {
  if (options.json) terminal.printJson({ syncs });
  else terminal.print(syncs.length === 0 ? 'There are no syncs.' : tableOf(syncs));
}

function tableOf(syncs: readonly SyncProgress[]): string {
  return toTable(
    ['ID', 'ATHLETE', 'STATE', 'LISTED', 'QUEUED', 'FETCHED', 'FAILED', 'STARTED', 'ENDED'],
    syncs.map((sync) => [
      sync.id,
      sync.athleteId ?? 'all',
      sync.state,
      String(sync.listed),
      String(sync.queued),
      String(sync.fetched),
      String(sync.fetchesFailed),
      sync.createdAt,
      sync.finishedAt ?? '–',
    ]),
  );
}
