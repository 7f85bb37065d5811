import type { Command } from 'commander';
import type { Finding } from '../flows/finding.ts';
import type { Subscription } from '../flows/manage-subscriptions.ts';
import { examineSubscription } from '../flows/subscription-doctor.ts';
import { readVariables } from '../infra/config.ts';
import { readDeliveries } from '../store/deliveries.ts';
import { CommandError, EXIT } from './command-error.ts';
import { type DirectProvider, openProvider } from './provider-client.ts';
import { findService, type ServiceClient } from './service-client.ts';
import { type Terminal, toTable } from './terminal.ts';

const WEBHOOK_PATH = '/api/provider/webhook';
const ADMIN_PATH = '/api/admin/webhooks';

export interface WhereOptions {
  url?: string;
  direct?: boolean;
  json?: boolean;
}

/** The commands about the webhook subscription. */
export function addWebhookCommands(program: Command, terminal: Terminal): void {
  const webhook = program.command('webhook').description('the webhook subscription at the provider');
  const add = (name: string, description: string) =>
    withWhere(webhook.command(name).description(description)).addHelpText(
      'after',
      `
Asks the running service when one answers, so that it knows the subscription and trusts its deliveries;
else the provider directly, and records the result in DATABASE_URL when that can be reached.

Examples:
  npm run webhook:${name}
  npm run webhook:${name} -- --json
  npm run webhook:${name} -- --direct`,
    );

  add('list', 'list the subscriptions').action(async (options: WhereOptions) => {
    const subscriptions = await either(options, terminal, {
      service: async (service) =>
        (await service.send<{ subscriptions: Subscription[] }>('GET', ADMIN_PATH)).subscriptions,
      direct: ({ subscriptions: all }) => all.list(),
    });
    if (options.json) terminal.printJson({ subscriptions });
    else if (subscriptions.length === 0) terminal.print('There is no subscription. Create one: npm run webhook:create');
    else terminal.print(tableOf(subscriptions));
  });

  add('create', 'create the subscription; the provider validates the callback during the call')
    .option('--callback-url <url>', `address of the webhook handler (default: NEXT_PUBLIC_BASE_URL${WEBHOOK_PATH})`)
    .action(async (options: WhereOptions & { callbackUrl?: string }) => {
      await createSubscription(options, terminal);
    });

  add('clean', 'delete all subscriptions').action(async (options: WhereOptions) => {
    const deleted = await either(options, terminal, {
      service: async (service) => (await service.send<{ deleted: number }>('DELETE', ADMIN_PATH)).deleted,
      direct: deleteAll,
    });
    if (options.json) terminal.printJson({ deleted });
    else terminal.print(deleted === 1 ? 'Deleted one subscription.' : `Deleted ${deleted} subscriptions.`);
  });

  add('doctor', 'check whether webhooks can arrive, and say how to fix what is wrong').action(
    async (options: WhereOptions) => {
      const examined = await either(options, terminal, {
        service: (service) => service.send<{ ok: boolean; findings: Finding[] }>('GET', `${ADMIN_PATH}/doctor`),
        direct: examineDirectly,
      });
      if (options.json) terminal.printJson(examined);
      else terminal.print(examined.findings.map(describe).join('\n'));
      if (!examined.ok) process.exitCode = EXIT.failed;
    },
  );
}

/** Creates the subscription, through the service or directly, and prints it. */
export async function createSubscription(
  options: WhereOptions & { callbackUrl?: string },
  terminal: Terminal,
): Promise<void> {
  const created = await either(options, terminal, {
    service: (service) =>
      service.send<{ id: string; callbackUrl: string }>(
        'POST',
        ADMIN_PATH,
        options.callbackUrl === undefined ? {} : { callbackUrl: options.callbackUrl },
      ),
    direct: ({ subscriptions }) => {
      const { PROVIDER_VERIFY_TOKEN } = readVariables(['PROVIDER_VERIFY_TOKEN']);
      if (!PROVIDER_VERIFY_TOKEN) throw new CommandError('PROVIDER_VERIFY_TOKEN is not set.', EXIT.usage);
      return subscriptions.create(options.callbackUrl ?? readCallbackUrl(), PROVIDER_VERIFY_TOKEN);
    },
  });
  if (options.json) terminal.printJson(created);
  else terminal.print(`Created subscription ${created.id} for ${created.callbackUrl}.`);
}

/** Options of commands that use the service, or else the provider. */
export function withWhere(command: Command): Command {
  return command
    .option('--url <url>', 'address of the running service (default: NEXT_PUBLIC_BASE_URL, then PORT on this machine)')
    .option('--direct', 'ask the provider, not the running service')
    .option('--json', 'print JSON');
}

async function either<Result>(
  options: WhereOptions,
  terminal: Terminal,
  ways: {
    service: (service: ServiceClient) => Promise<Result>;
    direct: (direct: DirectProvider) => Promise<Result>;
  },
): Promise<Result> {
  // Without an admin token the provider can still be called with the application's own credentials.
  const mayAsk = options.url !== undefined || readVariables([], ['ADMIN_TOKEN']).ADMIN_TOKEN !== undefined;
  const service = mayAsk && !options.direct ? await findService(options.url) : undefined;
  if (service) return ways.service(service);
  const direct = await openProvider();
  try {
    if (!direct.database) {
      terminal.note(
        'Note: neither the running service (with ADMIN_TOKEN) nor a database (with DATABASE_URL) can be reached, so nothing is recorded. Run webhook:list again where one of them can be reached.',
      );
    }
    return await ways.direct(direct);
  } finally {
    await direct.close();
  }
}

async function deleteAll({ subscriptions }: DirectProvider): Promise<number> {
  let deleted = 0;
  for (const { id } of await subscriptions.list()) if (await subscriptions.delete(id)) deleted += 1;
  return deleted;
}

async function examineDirectly({ provider, database }: DirectProvider) {
  const config = readVariables(['PROVIDER_API_URL'], ['PROVIDER_VERIFY_TOKEN', 'PROVIDER_WEBHOOK_SECRET']);
  return examineSubscription({
    provider,
    callbackUrl: readCallbackUrl(),
    providerOrigin: config.PROVIDER_API_URL,
    verifyToken: config.PROVIDER_VERIFY_TOKEN,
    signed: config.PROVIDER_WEBHOOK_SECRET !== undefined,
    readDeliveries: database && (() => readDeliveries(database)),
    now: Date.now,
  });
}

function readCallbackUrl(): string {
  return `${readVariables(['NEXT_PUBLIC_BASE_URL']).NEXT_PUBLIC_BASE_URL}${WEBHOOK_PATH}`;
}

function tableOf(subscriptions: readonly Subscription[]): string {
  return toTable(
    ['ID', 'CALLBACK', 'CREATED'],
    subscriptions.map(({ id, callbackUrl, createdAt }) => [id, callbackUrl, createdAt ?? '–']),
  );
}

function describe({ check, ok, detail, nextStep }: Finding): string {
  const mark = ok ? (nextStep === null ? '✓' : '!') : '✗';
  return `${mark} ${check}: ${detail}${nextStep === null ? '' : `\n    → ${nextStep}`}`;
}
