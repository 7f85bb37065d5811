import { Argument, type Command } from 'commander';
import { readVariables } from '../infra/config.ts';
import { ProviderError } from '../provider/errors.ts';
import { CommandError } from './command-error.ts';
import { openProvider } from './provider-client.ts';
import type { Terminal } from './terminal.ts';
import { createSubscription, type WhereOptions, withWhere } from './webhook-commands.ts';

/** `setup-webhooks create`: checks an athlete's token, then creates the subscription. */
export function addSetupWebhooksCommand(program: Command, terminal: Terminal): void {
  const command = program
    .command('setup-webhooks')
    .description('check PROVIDER_ACCESS_TOKEN with the provider, then create the subscription')
    .addArgument(new Argument('<action>', 'what to do').choices(['create']))
    .option(
      '--callback-url <url>',
      'address of the webhook handler (default: NEXT_PUBLIC_BASE_URL/api/provider/webhook)',
    )
    .addHelpText(
      'after',
      `
Example:
  PROVIDER_ACCESS_TOKEN=… npm run setup-webhooks -- create`,
    );
  withWhere(command).action(async (_action: 'create', options: WhereOptions & { callbackUrl?: string }) => {
    await checkAccessToken(terminal);
    await createSubscription(options, terminal);
  });
}

async function checkAccessToken(terminal: Terminal): Promise<void> {
  const { PROVIDER_ACCESS_TOKEN } = readVariables(['PROVIDER_ACCESS_TOKEN']);
  const direct = await openProvider();
  try {
    const athlete = await direct.provider.getAthlete(PROVIDER_ACCESS_TOKEN);
    terminal.note(`The access token is valid: athlete ${athlete.id}${athlete.name ? `, ${athlete.name}` : ''}.`);
  } catch (error) {
    if (!(error instanceof ProviderError && (error.code === 'UNAUTHORIZED' || error.code === 'FORBIDDEN'))) throw error;
    throw new CommandError(
      'The provider refuses the token in PROVIDER_ACCESS_TOKEN. It may have expired: get a new one.',
    );
  } finally {
    await direct.close();
  }
}
