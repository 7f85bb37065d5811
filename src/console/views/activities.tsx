import type { Activity } from '../api/bodies.ts';
import { withQuery } from '../api/client.ts';
import { formatDayTime, formatDistance, formatDuration, spaced } from '../format.ts';
import { IdFilter } from '../parts/filters.tsx';
import { Page } from '../parts/page.tsx';
import { Pages } from '../parts/pages.tsx';
import { Picture } from '../parts/picture.tsx';
import { Empty, Shown } from '../parts/shown.tsx';
import { useResource } from '../resource.ts';
import { Link, place } from '../router.tsx';

/** Stored activities with their pictures, newest first. */
export function ActivitiesView() {
  const { query } = place.value;
  const activities = useResource<{ activities: Activity[]; nextCursor: string | null }>(
    withQuery('/api/admin/activities', {
      athleteId: query.get('athleteId') ?? undefined,
      cursor: query.get('cursor') ?? undefined,
      limit: '48',
    }),
    ['activity'],
  );
  return (
    <Page title="Activities">
      <div class="filters">
        <IdFilter fields={[{ name: 'athleteId', label: 'Athlete' }]} />
      </div>
      <Shown resource={activities}>
        {(page) => (
          <>
            {page.activities.length === 0 ? (
              <Empty>No activity {query.has('athleteId') ? 'of this athlete is stored' : 'is stored yet'}.</Empty>
            ) : (
              <ul class="gallery" aria-label="Activities">
                {page.activities.map((activity) => (
                  <li key={activity.id}>
                    <GalleryItem activity={activity} />
                  </li>
                ))}
              </ul>
            )}
            <Pages nextCursor={page.nextCursor} />
          </>
        )}
      </Shown>
    </Page>
  );
}

function GalleryItem({ activity }: { activity: Activity }) {
  const facts = [
    spaced(activity.sportType),
    activity.distanceM > 0 && formatDistance(activity.distanceM),
    activity.movingTimeS > 0 && formatDuration(activity.movingTimeS),
  ].filter(Boolean);
  return (
    <Link class="activity" to={`/activities/${activity.id}`}>
      <Picture activity={activity} />
      <span class="text">
        <span class="name">{activity.name || 'Untitled'}</span>
        <span class="faint">{facts.join(' · ')}</span>
        <span class="faint">{formatDayTime(activity.startDate)}</span>
      </span>
    </Link>
  );
}
