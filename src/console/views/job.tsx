import type { JobPage } from '../api/bodies.ts';
import { now } from '../clock.ts';
import { formatClock, inWords } from '../format.ts';
import { ActivityLink } from '../parts/activity-link.tsx';
import { AthleteLink } from '../parts/athlete-link.tsx';
import { Badge } from '../parts/badge.tsx';
import { deleteJob, forceJob, retryJob } from '../parts/job-actions.ts';
import { JobTimeline } from '../parts/job-timeline.tsx';
import { Age, Moment } from '../parts/moment.tsx';
import { Card, Facts, Page } from '../parts/page.tsx';
import { Shown } from '../parts/shown.tsx';
import { useResource } from '../resource.ts';
import { go, Link } from '../router.tsx';
import { mayChange } from '../session.ts';

/** One job: its status, why it does not run sooner, and everything that happened to it. */
export function JobView({ id }: { id: string }) {
  const page = useResource<JobPage>(`/api/admin/activity-jobs/${id}`, ['jobs', 'webhook', 'budget']);
  const job = page.data?.job;
  const remove = async () => {
    if (job && (await deleteJob(job))) go('/jobs');
  };
  return (
    <Page
      title={`Job ${id}`}
      lead={<Link to="/jobs">All jobs</Link>}
      actions={
        job &&
        mayChange() && (
          <>
            <button type="button" disabled={job.status === 'working'} onClick={() => retryJob(job)}>
              Retry
            </button>
            <button type="button" onClick={() => forceJob(job)}>
              Force re-fetch
            </button>
            <button type="button" class="danger" onClick={remove}>
              Delete
            </button>
          </>
        )
      }
    >
      <Shown resource={page}>
        {(shown) => (
          <>
            <WhyNotSooner page={shown} />
            <div class="cards">
              <Card title="Status">
                <Facts of={factsOf(shown)} />
              </Card>
              <Card title="What happened">
                <JobTimeline page={shown} />
              </Card>
            </div>
          </>
        )}
      </Shown>
    </Page>
  );
}

function factsOf({ job }: JobPage): [string, preact.ComponentChildren][] {
  return [
    [
      'Status',
      <>
        <Badge state={job.status} /> {job.outcome && inWords(job.outcome)}
      </>,
    ],
    ['Activity', job.outcome === 'stored' || job.outcome === 'skipped' ? <ActivityLink of={job} /> : job.activityId],
    ['Athlete', <AthleteLink id={job.athleteId} />],
    ['Requested by', `${job.reason}${job.force ? ', forced' : ''}`],
    ['Retries', `${job.attempts} of ${job.maxAttempts}`],
    ['Last error', job.error ?? 'none'],
    ['Created', <Moment at={job.createdAt} />],
    ['Last change', <Moment at={job.updatedAt} />],
  ];
}

function WhyNotSooner({ page: { job, whyNotSooner } }: { page: JobPage }) {
  if (!whyNotSooner) return null;
  const { cause, until } = whyNotSooner;
  const due = until !== null && Date.parse(until) > now.value;
  return (
    <p class="notice waiting">
      {due && until ? (
        <>
          Runs <Age at={until} /> at the earliest ({formatClock(until)}): {REASONS[cause](job.athleteId)}
        </>
      ) : (
        IDLE[cause]
      )}
    </p>
  );
}

const PAUSED = 'Waits until an operator resumes fetching: see Processes.';
const FREE = 'Runs as soon as a worker is free.';
const IDLE = { turn: FREE, cooldown: FREE, budget: FREE, backoff: FREE, pause: PAUSED };

const REASONS = {
  pause: () => 'an operator has paused fetching.',
  turn: () => 'other jobs are ahead of it.',
  cooldown: (athleteId: string) => `athlete ${athleteId} was just fetched from and is in cooldown.`,
  budget: () => 'the provider’s budget is spent, kept for webhooks, or paced.',
  backoff: () => 'its last attempt failed; it waits for the backoff.',
};
