import type { ApiToken } from '../api/bodies.ts';
import { ask } from '../api/client.ts';
import { useResource } from '../resource.ts';
import { mayChange } from '../session.ts';
import { confirmed } from './confirm.tsx';
import { act } from './messages.tsx';
import { Age, Moment } from './moment.tsx';
import { showSecret } from './secret.tsx';
import { Empty, Shown } from './shown.tsx';
import { type Column, Table } from './table.tsx';

const PATH = '/api/admin/api-tokens';
const EVERY_MS = 30_000;

/** Tokens of applications, with forms to create and revoke them. */
export function TokenList() {
  const read = useResource<{ tokens: ApiToken[] }>(PATH, [], EVERY_MS);
  const revoke = async (token: ApiToken) => {
    if (await revokeToken(token)) read.reload();
  };
  return (
    <section class="block">
      <h2>Tokens</h2>
      <Shown resource={read}>
        {({ tokens }) =>
          tokens.length === 0 ? (
            <Empty>There are no tokens, so no application can use the API.</Empty>
          ) : (
            <Table label="Tokens" rows={tokens} columns={mayChange() ? [...COLUMNS, revokeColumn(revoke)] : COLUMNS} />
          )
        }
      </Shown>
      {mayChange() && <TokenForm onCreated={read.reload} />}
    </section>
  );
}

function TokenForm({ onCreated }: { onCreated: () => void }) {
  const create = async (event: Event) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const created = await act(
      () => ask<ApiToken & { token: string }>('POST', PATH, { body: Object.fromEntries(new FormData(form)) }),
      ({ id }) => `Token ${id} created.`,
    );
    if (!created) return;
    form.reset();
    onCreated();
    await showSecret({
      title: `The token of ${created.name}`,
      text: 'Give it to the application, which sends it with each request. It is shown only once.',
      value: created.token,
    });
  };
  return (
    <form class="filter" onSubmit={create}>
      <label>
        <span>Application</span>
        <input name="name" required maxLength={100} autoComplete="off" />
      </label>
      <label>
        <span>May</span>
        <select name="scope">
          <option value="read">read</option>
          <option value="write">read and write</option>
        </select>
      </label>
      <button type="submit">Create token</button>
    </form>
  );
}

const COLUMNS: readonly Column<ApiToken>[] = [
  {
    name: 'Name',
    cell: ({ name, scope, createdAt }) => (
      <span class="break">
        {name}
        <span class="narrow faint">
          {scope}, created <Age at={createdAt} />
        </span>
      </span>
    ),
  },
  { name: 'Scope', minor: true, cell: ({ scope }) => scope },
  { name: 'Created', minor: true, cell: ({ createdAt }) => <Moment at={createdAt} /> },
  { name: 'Last used', cell: ({ lastUsedAt }) => <Age at={lastUsedAt} /> },
  {
    name: 'Revoked',
    cell: ({ revokedAt }) => (revokedAt === null ? <span class="faint">no</span> : <Age at={revokedAt} />),
  },
];

function revokeColumn(revoke: (token: ApiToken) => void): Column<ApiToken> {
  return {
    name: 'Actions',
    cell: (token) =>
      token.revokedAt === null && (
        <button type="button" class="small danger" aria-label={`Revoke ${token.name}`} onClick={() => revoke(token)}>
          Revoke
        </button>
      ),
  };
}

async function revokeToken({ id, name }: ApiToken): Promise<boolean> {
  const sure = await confirmed({
    title: `Revoke the token of ${name}?`,
    text: 'Requests with it are refused from now on. This cannot be undone; the application needs a new token.',
    action: 'Revoke',
    destroys: true,
  });
  if (!sure) return false;
  const done = await act(
    () => ask('DELETE', `${PATH}/${id}`),
    () => `Token of ${name} revoked.`,
  );
  return done !== undefined;
}
