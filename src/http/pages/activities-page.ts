import type { ActivityRow } from '../../store/activities.ts';
import { escapeHtml, renderPage } from './page.ts';

/**
 * A page of activities with their pictures, newest first.
 * @param older where the next page begins; null on the last one
 * @param isFirst whether these are the newest
 */
export function renderActivitiesPage(
  activities: readonly ActivityRow[],
  { older, isFirst }: { older: string | null; isFirst: boolean },
): string {
  const title = isFirst ? 'Newest activities' : 'Older activities';
  if (activities.length === 0) {
    const connect =
      'None yet. Connect an athlete at <a href="/api/provider/connect">/api/provider/connect</a>; their next activity appears here.';
    return renderPage(title, `<p class="faint">${isFirst ? connect : 'There are no older activities.'}</p>`);
  }
  const links = [
    isFirst ? '' : '<a href="/">Newest</a>',
    older === null ? '' : `<a rel="next" href="/?before=${encodeURIComponent(older)}">Older</a>`,
  ].filter(Boolean);
  const pages = links.length === 0 ? '' : `\n<nav class="pages" aria-label="Pages">${links.join(' ')}</nav>`;
  return renderPage(title, `<ul class="activities">\n${activities.map(renderActivity).join('\n')}\n</ul>${pages}`);
}

function renderActivity(activity: ActivityRow): string {
  const name = escapeHtml(activity.name || 'Untitled');
  const picture = activity.thumbnail_etag
    ? `<img src="/activities/${activity.activity_id}/thumbnail.png" alt="Route of ${name}" width="256" height="256" loading="lazy">`
    : '<div class="no-picture">picture follows</div>';
  const athlete = activity.athlete_name ? `<div class="facts">${escapeHtml(activity.athlete_name)}</div>` : '';
  const when = activity.start_date.toISOString().slice(0, 16).replace('T', ' ');
  const facts = [
    spaced(activity.sport_type),
    activity.distance_m > 0 ? `${(activity.distance_m / 1000).toFixed(1)} km` : undefined,
    activity.moving_time_s > 0 ? duration(activity.moving_time_s) : undefined,
  ].filter(Boolean);
  return `<li>${picture}<div class="text"><div class="name">${name}</div>${athlete}<div class="facts">${escapeHtml(facts.join(' · '))}</div><div class="facts"><time datetime="${activity.start_date.toISOString()}">${when} UTC</time></div></div></li>`;
}

// "TrailRun" reads better as "Trail Run".
function spaced(sportType: string): string {
  return sportType.replace(/([a-z])([A-Z])/g, '$1 $2');
}

function duration(seconds: number): string {
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor((seconds % 3600) / 60);
  return hours > 0 ? `${hours} h ${minutes} min` : `${minutes} min`;
}
