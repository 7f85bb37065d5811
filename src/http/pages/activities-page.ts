import type { ActivityRow } from '../../store/activities.ts';
import { escapeHtml, renderPage } from './page.ts';

/** The newest activities with their pictures. */
export function renderActivitiesPage(activities: readonly ActivityRow[]): string {
  if (activities.length === 0) {
    return renderPage(
      'Newest activities',
      '<p class="faint">None yet. Connect an athlete at <a href="/api/provider/connect">/api/provider/connect</a>; what they do next appears here.</p>',
    );
  }
  return renderPage(
    'Newest activities',
    `<ul class="activities">\n${activities.map(renderActivity).join('\n')}\n</ul>`,
  );
}

function renderActivity(activity: ActivityRow): string {
  const name = escapeHtml(activity.name || 'Untitled');
  const picture = activity.thumbnail_etag
    ? `<img src="/activities/${activity.activity_id}/thumbnail.png" alt="Route of ${name}" width="256" height="256" loading="lazy">`
    : '<div class="no-picture">picture follows</div>';
  const when = activity.start_date.toISOString().slice(0, 16).replace('T', ' ');
  const facts = [
    spaced(activity.sport_type),
    activity.distance_m > 0 ? `${(activity.distance_m / 1000).toFixed(1)} km` : undefined,
    activity.moving_time_s > 0 ? duration(activity.moving_time_s) : undefined,
  ].filter(Boolean);
  return `<li>${picture}<div class="text"><div class="name">${name}</div><div class="facts">${escapeHtml(facts.join(' · '))}</div><div class="facts"><time datetime="${activity.start_date.toISOString()}">${when} UTC</time></div></div></li>`;
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
