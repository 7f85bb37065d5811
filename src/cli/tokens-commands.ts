import { type Command, Option } from 'commander';
import { mustFindService } from './service-client.ts';
import { type Terminal, toTable } from './terminal.ts';

const PATH = '/api/admin/api-tokens';

interface Token {
  id: string;
  name: string;
  scope: string;
  createdAt: string;
  lastUsedAt: string | null;
  revokedAt: string | null;
}

interface Options {
  url?: string;
  json?: boolean;
}

/** The commands about the tokens of applications; all of them ask the running service. */
export function addTokensCommands(program: Command, terminal: Terminal): void {
  const tokens = program.command('tokens').description('tokens of the applications that use /api/v1');

  withOptions(tokens.command('list').description('all tokens, oldest first')).action(async (options: Options) => {
    const service = await mustFindService(options.url);
    const { tokens: all } = await service.send<{ tokens: Token[] }>('GET', PATH);
    if (options.json) return terminal.printJson(all);
    const rows = all.map((one) => [
      one.id,
      one.name,
      one.scope,
      one.createdAt,
      one.lastUsedAt ?? 'never',
      one.revokedAt ?? 'no',
    ]);
    terminal.print(
      all.length === 0
        ? 'There are no tokens.'
        : toTable(['ID', 'NAME', 'SCOPE', 'CREATED', 'LAST USED', 'REVOKED'], rows),
    );
  });

  withOptions(tokens.command('create').description('create a token; it is shown only once'))
    .argument('<name>', 'which application it is for')
    .addOption(new Option('--scope <scope>', 'write includes read').choices(['read', 'write']).default('read'))
    .addHelpText('after', '\nExample:\n  npm run tokens -- create "my app" --scope write')
    .action(async (name: string, options: Options & { scope: string }) => {
      const service = await mustFindService(options.url);
      const created = await service.send<Token & { token: string }>('POST', PATH, { name, scope: options.scope });
      if (options.json) return terminal.printJson(created);
      terminal.note(`Created token ${created.id}. It is shown only once:`);
      terminal.print(created.token);
    });

  withOptions(tokens.command('revoke').description('revoke a token; its next request is refused'))
    .argument('<id>', 'of the list')
    .action(async (id: string, options: Options) => {
      const service = await mustFindService(options.url);
      await service.send('DELETE', `${PATH}/${encodeURIComponent(id)}`);
      if (options.json) terminal.printJson({ revoked: true });
      else terminal.print(`Revoked token ${id}.`);
    });
}

function withOptions(command: Command): Command {
  return command
    .option('--url <url>', 'address of the running service (default: NEXT_PUBLIC_BASE_URL, then PORT on this machine)')
    .option('--json', 'print JSON');
}
