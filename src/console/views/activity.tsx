import type { Job, WholeActivity } from '../api/bodies.ts';
import { ask, withQuery } from '../api/client.ts';
import { formatDistance, formatSpan, spaced } from '../format.ts';
import { AthleteLink } from '../parts/athlete-link.tsx';
import { act } from '../parts/messages.tsx';
import { Age, Moment } from '../parts/moment.tsx';
import { Card, Facts, Page } from '../parts/page.tsx';
import { Picture } from '../parts/picture.tsx';
import { Shown } from '../parts/shown.tsx';
import { WhoWasTold } from '../parts/who-was-told.tsx';
import { useResource } from '../resource.ts';
import { Link } from '../router.tsx';
import { mayChange } from '../session.ts';

/** One activity: its picture, its fields, and the provider's whole answer. */
export function ActivityView({ id }: { id: string }) {
  const activity = useResource<WholeActivity>(`/api/admin/activities/${id}`, ['activity']);
  const jobs = useResource<{ jobs: Job[] }>(withQuery('/api/admin/activity-jobs', { activityId: id, limit: '1' }), [
    'jobs',
  ]);
  const job = jobs.data?.jobs[0];
  const fetchAgain = ({ athleteId }: WholeActivity) =>
    act(
      () => ask<Job>('POST', '/api/admin/activity-jobs', { body: { activityId: id, athleteId, force: true } }),
      (asked) => `Job ${asked.id} will re-fetch it.`,
    );
  const shown = activity.data;
  return (
    <Page
      title={shown ? shown.name || 'Untitled' : `Activity ${id}`}
      lead={<Link to="/activities">All activities</Link>}
      actions={
        shown &&
        mayChange() && (
          <button type="button" onClick={() => fetchAgain(shown)}>
            Fetch again
          </button>
        )
      }
    >
      <Shown resource={activity}>
        {(read) => (
          <>
            <div class="cards activity-page">
              <Card title="Route">
                <Picture activity={read} />
              </Card>
              <Card title="Fields">
                <Facts
                  of={[
                    ['Id', <span class="id">{read.id}</span>],
                    ['Athlete', <AthleteLink id={read.athleteId} />],
                    ['Sport', spaced(read.sportType)],
                    ['Start', <Moment at={read.startDate} />],
                    ['Time zone', read.timezone ?? '–'],
                    ['Distance', formatDistance(read.distanceM)],
                    ['Moving time', formatSpan(read.movingTimeS * 1000)],
                    ['Elapsed time', formatSpan(read.elapsedTimeS * 1000)],
                    ['Climb', `${Math.round(read.elevationGainM)} m`],
                    ['Private', read.private ? 'yes' : 'no'],
                    ['Fetched', <Age at={read.fetchedAt} />],
                    ['Job', job ? <Link to={`/jobs/${job.id}`}>{job.id}</Link> : 'none'],
                  ]}
                />
              </Card>
            </div>
            <WhoWasTold activityId={id} />
            <details class="card wide">
              <summary>The provider’s whole answer</summary>
              {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
              <pre tabIndex={0}>{JSON.stringify(read.detail, null, 2)}</pre>
            </details>
          </>
        )}
      </Shown>
    </Page>
  );
}
