import { activityDetail, activitySummary, athleteJson } from './activity-json.ts';
import { type Answer, answerError, answerJson, type Call, unauthorized, unknownPath } from './exchange.ts';
import type { Settings } from './options.ts';
import type { Activity, World } from './world.ts';

const mostPerPage = 200;

/** The reading half of the API: the athlete, the list of activities, one activity. */
export class ApiRoutes {
  readonly #settings: Settings;
  readonly #world: World;

  constructor(settings: Settings, world: World) {
    this.#settings = settings;
    this.#world = world;
  }

  answer(call: Call): Answer {
    if (call.grant === undefined) return unauthorized;
    if (call.method !== 'GET') return unknownPath;
    if (call.activityId !== undefined) return this.#showActivity(call, call.activityId);
    if (call.path === '/api/v3/athlete/activities') return this.#listActivities(call);
    if (call.path === '/api/v3/athlete') return this.#showAthlete(call.grant.athleteId);
    return unknownPath;
  }

  #showAthlete(athleteId: string): Answer {
    const athlete = this.#world.athlete(athleteId);
    return athlete === undefined ? unauthorized : answerJson(200, athleteJson(athlete));
  }

  #showActivity(call: Call, activityId: string): Answer {
    const sight = sightOf(call);
    if (sight === undefined) return missingPermission;
    const activity = this.#world.activity(activityId);
    if (activity === undefined || !sight(activity)) return activityNotFound;
    return answerJson(200, activityDetail(activity, this.#settings.detailBytes));
  }

  #listActivities(call: Call): Answer {
    const sight = sightOf(call);
    if (sight === undefined) return missingPermission;
    const query = new URLSearchParams(call.query);
    const page = wholeNumber(query.get('page'), 1);
    const perPage = wholeNumber(query.get('per_page'), 30);
    const beforeMs = wholeNumber(query.get('before'), Number.POSITIVE_INFINITY) * 1_000;
    const afterMs = wholeNumber(query.get('after'), Number.NEGATIVE_INFINITY) * 1_000;
    if (Number.isNaN(page) || page < 1) return invalid('page');
    if (Number.isNaN(perPage) || perPage < 1) return invalid('per_page');
    if (perPage > mostPerPage) return answerError(400, 'Bad Request', 'Application', 'per_page', 'limit exceeded');
    if (Number.isNaN(beforeMs)) return invalid('before');
    if (Number.isNaN(afterMs)) return invalid('after');
    const fits = (activity: Activity) => activity.startMs < beforeMs && activity.startMs > afterMs && sight(activity);
    const shown = slicePage(this.#world.newestFirst(call.athleteId ?? ''), fits, (page - 1) * perPage, perPage);
    return answerJson(200, `[${shown.map(activitySummary).join(',')}]`);
  }
}

const activityNotFound = answerError(404, 'Record Not Found', 'Activity', 'id', 'not found');
const missingPermission = answerError(401, 'Authorization Error', 'AccessToken', 'activity:read_permission', 'missing');

/** Which activities a token sees: none at all (undefined), those not private, or its owner's private ones too. */
function sightOf(call: Call): ((activity: Activity) => boolean) | undefined {
  const scopes = call.grant?.scope.split(',') ?? [];
  if (scopes.includes('activity:read_all')) return (it) => !it.private || it.athleteId === call.athleteId;
  if (scopes.includes('activity:read')) return (it) => !it.private;
  return undefined;
}

function slicePage(
  activities: readonly Activity[],
  fits: (activity: Activity) => boolean,
  skip: number,
  take: number,
): Activity[] {
  const shown: Activity[] = [];
  let met = 0;
  for (const activity of activities) {
    if (!fits(activity)) continue;
    if (met++ >= skip) shown.push(activity);
    if (shown.length === take) break;
  }
  return shown;
}

function wholeNumber(text: string | null, otherwise: number): number {
  if (text === null || text === '') return otherwise;
  return /^-?\d+$/.test(text) ? Number(text) : Number.NaN;
}

function invalid(field: string): Answer {
  return answerError(400, 'Bad Request', 'Application', field, 'invalid');
}
