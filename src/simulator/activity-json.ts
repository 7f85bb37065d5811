import type { LatLng } from './places.ts';
import type { Activity, Athlete } from './world.ts';

/** The detail answer. Ids are written digit by digit as JSON numbers, since `JSON.stringify` rounds above 2^53. */
export function activityDetail(activity: Activity): string {
  return `{"resource_state":3,${commonFields(activity)},${detailFields(activity)},"segment_efforts":[]}`;
}

/** One element of the list answer. */
export function activitySummary(activity: Activity): string {
  return `{"resource_state":2,${commonFields(activity)},"map":{"id":"a${activity.id}","summary_polyline":${activity.route.summaryJson},"resource_state":2}}`;
}

/** The athlete as `GET /athlete` and the token exchange show one. */
export function athleteJson(athlete: Athlete): string {
  const [first = '', ...rest] = athlete.name.split(' ');
  const shown = JSON.stringify({
    username: null,
    resource_state: 2,
    firstname: first,
    lastname: rest.join(' '),
    city: athlete.place.city,
    country: athlete.place.country,
    sex: null,
    premium: false,
    summit: false,
    badge_type_id: 0,
    profile_medium: 'avatar/athlete/medium.png',
    profile: 'avatar/athlete/large.png',
  });
  return `{"id":${athlete.id},${shown.slice(1)}`;
}

function commonFields(activity: Activity): string {
  const { route, sport, place } = activity;
  const start = new Date(activity.startMs).toISOString().slice(0, 19);
  const localStart = new Date(activity.startMs + place.utcOffsetSeconds * 1_000).toISOString().slice(0, 19);
  const speed = activity.movingSeconds > 0 ? activity.distanceMetres / activity.movingSeconds : 0;
  return (
    `"id":${activity.id},"athlete":{"id":${activity.athleteId},"resource_state":1}` +
    `,"name":${JSON.stringify(activity.name)},"distance":${activity.distanceMetres}` +
    `,"moving_time":${activity.movingSeconds},"elapsed_time":${activity.elapsedSeconds}` +
    `,"total_elevation_gain":${activity.elevationGainMetres}` +
    `,"type":${JSON.stringify(sport.type)},"sport_type":${JSON.stringify(sport.sportType)},"workout_type":null` +
    `,"start_date":"${start}Z","start_date_local":"${localStart}Z"` +
    `,"timezone":"${place.timezone}","utc_offset":${place.utcOffsetSeconds}` +
    `,"location_city":null,"location_state":null,"location_country":${JSON.stringify(place.country)}` +
    `,"achievement_count":0,"kudos_count":${activity.number % 40},"comment_count":0,"athlete_count":1,"photo_count":0` +
    `,"trainer":${activity.kind === 'indoor'},"commute":false,"manual":${activity.kind === 'manual'}` +
    `,"private":${activity.private},"visibility":"${activity.private ? 'only_me' : 'everyone'}","flagged":false` +
    `,"gear_id":null,"start_latlng":${latLngJson(route.start)},"end_latlng":${latLngJson(route.end)}` +
    `,"average_speed":${speed.toFixed(3)},"max_speed":${(speed * 1.6).toFixed(3)},"has_heartrate":false` +
    `,"heartrate_opt_out":false,"display_hide_heartrate_option":false` +
    `,"upload_id":${activity.kind === 'manual' ? 'null' : activity.id},"pr_count":0,"total_photo_count":0,"has_kudoed":false`
  );
}

/** Fields of the detail alone; the second half is what the real provider sends without documenting it. */
function detailFields(activity: Activity): string {
  const { route } = activity;
  return (
    `"description":${JSON.stringify(activity.description)},"calories":${Math.round(activity.movingSeconds / 6)}` +
    `,"map":{"id":"a${activity.id}","polyline":${route.polylineJson},"resource_state":3,"summary_polyline":${route.summaryJson}}` +
    `,"device_name":${activity.kind === 'manual' ? 'null' : '"Simulated Watch 3"'},"embed_token":"${activity.number.toString(16)}"` +
    `,"hide_from_home":false,"perceived_exertion":null,"prefer_perceived_exertion":false,"available_zones":[]` +
    `,"stats_visibility":[{"type":"heart_rate","visibility":"everyone"},{"type":"pace","visibility":"everyone"}]` +
    `,"private_note":"","similar_activities":{"effort_count":1,"average_speed":0,"trend":{"speeds":[],"current_activity_index":0}}` +
    `,"splits_metric":[],"laps":[],"best_efforts":[]`
  );
}

function latLngJson(point: LatLng | undefined): string {
  return point === undefined ? '[]' : `[${point[0].toFixed(6)},${point[1].toFixed(6)}]`;
}
