import { type FetchPause, type Process, type QueueDepth, REASONS } from '../api/bodies.ts';
import { ask } from '../api/client.ts';
import { formatCount, formatSpan } from '../format.ts';
import { act } from '../parts/messages.tsx';
import { Age } from '../parts/moment.tsx';
import { Card, Page } from '../parts/page.tsx';
import { Empty, Shown } from '../parts/shown.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { useResource } from '../resource.ts';
import { Link } from '../router.tsx';
import { mayChange } from '../session.ts';

interface Processes {
  processes: Process[];
  queues: Record<'fetch' | 'thumbnail', QueueDepth>;
  pauses: FetchPause[];
}

const EVERY_MS = 5000;
const PATH = '/api/admin/fetching';

/** Which processes work, what waits for them, and whether fetching is paused. */
export function ProcessesView() {
  const read = useResource<Processes>('/api/admin/processes', ['jobs', 'budget'], EVERY_MS);
  return (
    <Page title="Processes">
      <Shown resource={read}>
        {({ processes, queues, pauses }) => (
          <>
            <Card title="Fetching" wide>
              <Pauses pauses={pauses} onChange={read.reload} />
            </Card>
            <section class="block">
              <h2>Queues</h2>
              <Table
                label="Queues"
                rows={[
                  { id: 'fetch', ...queues.fetch },
                  { id: 'thumbnail', ...queues.thumbnail },
                ]}
                columns={QUEUES}
              />
            </section>
            <section class="block">
              <h2>Processes</h2>
              {processes.length === 0 ? (
                <Empty>No process has been seen within the last day.</Empty>
              ) : (
                <Table label="Processes" rows={processes} columns={COLUMNS} />
              )}
            </section>
          </>
        )}
      </Shown>
    </Page>
  );
}

function Pauses({ pauses, onChange }: { pauses: readonly FetchPause[]; onChange: () => void }) {
  const resume = async (reason: string) => {
    const done = await act(
      () => ask('POST', `${PATH}/resume`, { body: { reason } }),
      () => `Fetching resumed: ${wordsOf(reason)}.`,
    );
    if (done) onChange();
  };
  return (
    <>
      {pauses.length === 0 && <p>Fetching is not paused.</p>}
      <ul class="pauses">
        {pauses.map(({ reason, pausedBy, pausedAt, note }) => (
          <li key={reason} class="notice waiting">
            <span>
              Paused: <b>{wordsOf(reason)}</b>, by {pausedBy} <Age at={pausedAt} />: {note}
            </span>
            {mayChange() && (
              <button
                type="button"
                class="small"
                aria-label={`Resume ${wordsOf(reason)}`}
                onClick={() => resume(reason)}
              >
                Resume
              </button>
            )}
          </li>
        ))}
      </ul>
      {mayChange() && <PauseForm onChange={onChange} />}
    </>
  );
}

function PauseForm({ onChange }: { onChange: () => void }) {
  const pause = async (event: Event) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const body = Object.fromEntries(new FormData(form));
    const done = await act(
      () => ask('POST', `${PATH}/pause`, { body }),
      () => `Fetching paused: ${wordsOf(String(body.reason))}. Running fetches finish.`,
    );
    if (!done) return;
    form.reset();
    onChange();
  };
  return (
    <form class="filter" onSubmit={pause}>
      <label>
        <span>Pause</span>
        <select name="reason">
          {['all', ...REASONS].map((reason) => (
            <option key={reason} value={reason}>
              {wordsOf(reason)}
            </option>
          ))}
        </select>
      </label>
      <label>
        <span>Your name</span>
        <input name="by" required maxLength={100} autoComplete="name" />
      </label>
      <label class="long">
        <span>Why</span>
        <input name="note" required maxLength={500} autoComplete="off" />
      </label>
      <button type="submit">Pause fetching</button>
    </form>
  );
}

function wordsOf(reason: string): string {
  return reason === 'all' ? 'all fetching' : `${reason} jobs`;
}

const QUEUES: readonly Column<QueueDepth & { id: string }>[] = [
  { name: 'Queue', cell: ({ id }) => (id === 'fetch' ? <Link to="/jobs?status=pending">fetch</Link> : id) },
  { name: 'Waiting', numeric: true, cell: ({ waiting }) => formatCount(waiting) },
  { name: 'Running', numeric: true, cell: ({ running }) => formatCount(running) },
  {
    name: 'Oldest due for',
    numeric: true,
    cell: ({ oldestDueS }) => (oldestDueS === 0 ? 'none due' : formatSpan(oldestDueS * 1000)),
  },
];

const COLUMNS: readonly Column<Process>[] = [
  {
    name: 'Process',
    cell: ({ host, pid, roles }) => (
      <span class="break">
        {host}, pid {pid}
        <span class="narrow faint">{roles.join(', ')}</span>
      </span>
    ),
  },
  {
    name: 'Status',
    cell: ({ alive }) => <span class={`badge ${alive ? 'green' : 'red'}`}>{alive ? 'alive' : 'gone'}</span>,
  },
  { name: 'Roles', minor: true, cell: ({ roles }) => roles.join(', ') },
  { name: 'Version', minor: true, cell: ({ version }) => version },
  { name: 'Started', minor: true, cell: ({ startedAt }) => <Age at={startedAt} /> },
  {
    name: 'Jobs in hand',
    cell: ({ fetching, drawing }) => (
      <>
        <span class="whole">{formatCount(fetching)} fetch,</span> {formatCount(drawing)} thumbnail
      </>
    ),
  },
  { name: 'Last seen', cell: ({ lastSeenAt }) => <Age at={lastSeenAt} /> },
];
