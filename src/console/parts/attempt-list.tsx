import { SEND_RESULTS, type SendAttempt } from '../api/bodies.ts';
import { withQuery } from '../api/client.ts';
import { formatSpan } from '../format.ts';
import { useResource } from '../resource.ts';
import { Link, place } from '../router.tsx';
import { mayChange } from '../session.ts';
import { Badge } from './badge.tsx';
import { Breakable } from './breakable.tsx';
import { resend } from './endpoint-actions.ts';
import { failureOf } from './endpoint-state.tsx';
import { Choice, IdFilter } from './filters.tsx';
import { Age } from './moment.tsx';
import { Pages } from './pages.tsx';
import { Empty, Shown } from './shown.tsx';
import { type Column, Table } from './table.tsx';

const EVERY_MS = 2000;
const PARAMETERS = ['result', 'activityId', 'cursor'];

/** The attempts at deliveries to an endpoint, newest first. */
export function AttemptList({ endpointId }: { endpointId: string }) {
  const { query } = place.value;
  const attempts = useResource<{ attempts: SendAttempt[]; nextCursor: string | null }>(
    withQuery(`/api/v1/endpoints/${endpointId}/attempts`, {
      ...Object.fromEntries(PARAMETERS.map((name) => [name, query.get(name) ?? undefined])),
      limit: '50',
    }),
    [],
    EVERY_MS,
  );
  return (
    <section class="block">
      <h2>Attempts</h2>
      <div class="filters">
        <Choice
          label="Result"
          name="result"
          options={[{ value: undefined, text: 'all' }, ...SEND_RESULTS.map((value) => ({ value, text: value }))]}
        />
        <IdFilter fields={[{ name: 'activityId', label: 'Activity' }]} />
      </div>
      <Shown resource={attempts}>
        {(page) => (
          <>
            {page.attempts.length === 0 ? (
              <Empty>
                {PARAMETERS.some((name) => query.has(name)) ? 'No attempt matches.' : 'Nothing has been sent yet.'}
              </Empty>
            ) : (
              <Table
                label="Attempts"
                rows={page.attempts}
                columns={mayChange() ? [...COLUMNS, resendColumn(endpointId)] : COLUMNS}
              />
            )}
            <Pages nextCursor={page.nextCursor} />
          </>
        )}
      </Shown>
    </section>
  );
}

const COLUMNS: readonly Column<SendAttempt>[] = [
  { name: 'When', cell: ({ at }) => <Age at={at} /> },
  {
    name: 'Change',
    cell: ({ type, activityId, athleteId }) => (
      <>
        <code>
          <Breakable text={type} />
        </code>
        {activityId !== null && (
          <span class="below">
            <Link to={`/activities/${activityId}`}>{activityId}</Link>
          </span>
        )}
        {activityId === null && athleteId !== null && (
          <span class="below">
            <Link to={`/athletes/${athleteId}`}>{athleteId}</Link>
          </span>
        )}
      </>
    ),
  },
  { name: 'Result', minor: true, cell: ({ result }) => <Badge state={result} /> },
  { name: 'Took', minor: true, numeric: true, cell: ({ durationMs }) => formatSpan(durationMs) },
  {
    name: 'Answer',
    cell: (attempt) => (
      <>
        <span class="narrow">
          <Badge state={attempt.result} /> {formatSpan(attempt.durationMs)}
        </span>
        <Answer attempt={attempt} />
      </>
    ),
  },
];

/** The status of the answer, and its first kilobyte on demand. */
function Answer({ attempt }: { attempt: SendAttempt }) {
  const words = failureOf(attempt);
  if (!attempt.answer) return <span class={attempt.status === null ? 'error-text' : undefined}>{words}</span>;
  return (
    <details class="answer">
      <summary>{words}</summary>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <pre tabIndex={0}>{attempt.answer}</pre>
    </details>
  );
}

function resendColumn(endpointId: string): Column<SendAttempt> {
  return {
    name: 'Actions',
    cell: (attempt) => (
      <button
        type="button"
        class="small"
        aria-label={`Resend what attempt ${attempt.id} sent`}
        onClick={() => resend(endpointId, attempt)}
      >
        Resend
      </button>
    ),
  };
}
