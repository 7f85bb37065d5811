import { type Command, Option } from 'commander';
import { withoutCall } from '../domain/error-text.ts';
import { REASONS, STATUSES } from '../domain/job.ts';
import { CommandError, EXIT } from './command-error.ts';
import { mustFindService } from './service-client.ts';
import { shorten, type Terminal, toTable } from './terminal.ts';

const PATH = '/api/admin/activity-jobs';
const ERROR_WIDTH = 100;

interface Job {
  id: string;
  activityId: string;
  athleteId: string;
  reason: string;
  status: string;
  outcome: string | null;
  attempts: number;
  maxAttempts: number;
  nextRunAt: string;
  error: string | null;
}

interface FilterOptions {
  status?: string;
  athlete?: string;
  activity?: string;
  reason?: string;
  url?: string;
  json?: boolean;
}

/** The commands about fetch jobs; all of them ask the running service. */
export function addJobsCommands(program: Command, terminal: Terminal): void {
  const jobs = program.command('jobs').description('fetch jobs of the running service: list, retry, purge');

  withFilter(jobs.command('list').description('statistics of the queue, and jobs, newest first'), [...STATUSES])
    .option('--limit <n>', 'how many, 1 to 200', '20')
    .option('--cursor <cursor>', 'continue after the previous page')
    .addHelpText(
      'after',
      '\nExamples:\n  npm run jobs -- list --status failed\n  npm run jobs -- list --athlete 1234 --json',
    )
    .action(async (options: FilterOptions & { limit: string; cursor?: string }) => {
      const query = queryOf(options, { limit: options.limit, cursor: options.cursor });
      const service = await mustFindService(options.url);
      const page = await service.send<{ stats: Record<string, number>; jobs: Job[]; nextCursor: string | null }>(
        'GET',
        `${PATH}${query}`,
      );
      if (options.json) return terminal.printJson(page);
      terminal.print(
        Object.entries(page.stats)
          .map(([status, count]) => `${status} ${count}`)
          .join('   '),
      );
      terminal.print(page.jobs.length === 0 ? 'No job matches.' : `\n${tableOf(page.jobs)}`);
      if (page.nextCursor) terminal.note(`\nMore: --cursor ${page.nextCursor}`);
    });

  withFilter(jobs.command('retry').description('retry a finished job, or all that match'), ['failed', 'done'])
    .argument('[jobId]', 'one job')
    .addHelpText('after', '\nExamples:\n  npm run jobs -- retry 17\n  npm run jobs -- retry --status failed')
    .action(async (jobId: string | undefined, options: FilterOptions) => {
      if ((jobId === undefined) === (options.status === undefined))
        throw new CommandError('Give either a job id, or --status failed (or done) for all that match.', EXIT.usage);
      refuseFilterOfOne(jobId, options);
      const service = await mustFindService(options.url);
      if (jobId !== undefined) {
        const job = await service.send<Job>('POST', `${PATH}/${encodeURIComponent(jobId)}/retry`);
        if (options.json) terminal.printJson(job);
        else terminal.print(`Job ${job.id} is ${job.status} again.`);
        return;
      }
      const { retried } = await service.send<{ retried: number }>('POST', `${PATH}/retry${queryOf(options)}`);
      if (options.json) terminal.printJson({ retried });
      else terminal.print(`${retried} ${retried === 1 ? 'job' : 'jobs'} retried.`);
    });

  withFilter(jobs.command('purge').description('delete all jobs with a status that match'), [...STATUSES])
    .option('--older-than <hours>', 'only jobs last updated more than this long ago')
    .addHelpText('after', '\nExample:\n  npm run jobs -- purge --status done --older-than 48')
    .action(async (options: FilterOptions & { olderThan?: string }) => {
      if (options.status === undefined) throw new CommandError('Say which jobs: --status.', EXIT.usage);
      const service = await mustFindService(options.url);
      const { deleted } = await service.send<{ deleted: number }>(
        'DELETE',
        `${PATH}${queryOf(options, { olderThan: options.olderThan })}`,
      );
      if (options.json) terminal.printJson({ deleted });
      else terminal.print(`Deleted ${deleted} ${deleted === 1 ? 'job' : 'jobs'}.`);
    });
}

// A filter that is silently ignored would seem to apply.
function refuseFilterOfOne(jobId: string | undefined, options: FilterOptions): void {
  const given = (['athlete', 'activity', 'reason'] as const).filter((name) => options[name] !== undefined);
  if (jobId !== undefined && given.length > 0)
    throw new CommandError(`Job ${jobId} is one job: leave out --${given.join(' and --')}.`, EXIT.usage);
}

function withFilter(command: Command, statuses: string[]): Command {
  return command
    .addOption(new Option('--status <status>', 'only jobs with this status').choices(statuses))
    .option('--athlete <id>', 'only jobs of this athlete')
    .option('--activity <id>', 'only the job of this activity')
    .addOption(new Option('--reason <reason>', 'only jobs with this reason').choices([...REASONS]))
    .option('--url <url>', 'address of the running service (default: NEXT_PUBLIC_BASE_URL, then PORT on this machine)')
    .option('--json', 'print JSON');
}

function queryOf(options: FilterOptions, more: Record<string, string | undefined> = {}): string {
  const named = {
    status: options.status,
    athleteId: options.athlete,
    activityId: options.activity,
    reason: options.reason,
    ...more,
  };
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(named)) if (value !== undefined) query.set(name, value);
  return query.size > 0 ? `?${query}` : '';
}

function tableOf(jobs: readonly Job[]): string {
  return toTable(
    ['ID', 'ACTIVITY', 'ATHLETE', 'REASON', 'STATUS', 'ATTEMPTS', 'NEXT RUN', 'ERROR'],
    jobs.map((job) => [
      job.id,
      job.activityId,
      job.athleteId,
      job.reason,
      job.outcome === null ? job.status : `${job.status} (${job.outcome})`,
      `${job.attempts}/${job.maxAttempts}`,
      job.status === 'pending' ? job.nextRunAt : '–',
      shorten(withoutCall(job.error ?? '–'), ERROR_WIDTH),
    ]),
  );
}
