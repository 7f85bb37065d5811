import type { Request } from 'express';
import { activityDetail, activitySummary, athleteJson } from './activity-json.ts';
import { type AddRoute, type Answer, answerError, answerJson, invalid, parameter, unauthorized } from './answer.ts';
import type { Grant } from './token-registry.ts';
import type { Activity, World } from './world.ts';

const mostPerPage = 200;

/** The reading half of the API: the athlete, the list of activities, one activity. */
export function addApiRoutes(add: AddRoute, world: World): void {
  const get = (path: string, handler: (request: Request, grant: Grant) => Answer) =>
    add('get', path, (request, grant) => (grant === undefined ? unauthorized : handler(request, grant)));

  get('/api/v3/athlete', (_, { athleteId }) => {
    const athlete = world.athlete(athleteId);
    return athlete === undefined ? unauthorized : answerJson(200, athleteJson(athlete));
  });

  get('/api/v3/activities/:id', ({ params }, grant) => {
    const sight = sightOf(grant);
    if (sight === undefined) return missingPermission;
    const activity = world.activity(String(params.id));
    return activity !== undefined && sight(activity) ? answerJson(200, activityDetail(activity)) : activityNotFound;
  });

  get('/api/v3/athlete/activities', (request, grant) => {
    const sight = sightOf(grant);
    if (sight === undefined) return missingPermission;
    const page = wholeNumber(parameter(request, 'page'), 1);
    const perPage = wholeNumber(parameter(request, 'per_page'), 30);
    const beforeMs = wholeNumber(parameter(request, 'before'), Number.POSITIVE_INFINITY) * 1_000;
    const afterMs = wholeNumber(parameter(request, 'after'), Number.NEGATIVE_INFINITY) * 1_000;
    if (Number.isNaN(page) || page < 1) return invalid('page');
    if (Number.isNaN(perPage) || perPage < 1) return invalid('per_page');
    if (perPage > mostPerPage) return answerError(400, 'Bad Request', 'Application', 'per_page', 'limit exceeded');
    if (Number.isNaN(beforeMs)) return invalid('before');
    if (Number.isNaN(afterMs)) return invalid('after');
    const fits = (activity: Activity) => activity.startMs < beforeMs && activity.startMs > afterMs && sight(activity);
    const shown = slicePage(world.newestFirst(grant.athleteId), fits, (page - 1) * perPage, perPage);
    return answerJson(200, `[${shown.map(activitySummary).join(',')}]`);
  });
}

const activityNotFound = answerError(404, 'Record Not Found', 'Activity', 'id', 'not found');
const missingPermission = answerError(401, 'Authorization Error', 'AccessToken', 'activity:read_permission', 'missing');

/** Which activities a token sees: none at all (undefined), those not private, or its owner's private ones too. */
function sightOf({ athleteId, scope }: Grant): ((activity: Activity) => boolean) | undefined {
  const scopes = scope.split(',');
  if (scopes.includes('activity:read_all')) return (it) => !it.private || it.athleteId === athleteId;
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

function wholeNumber(text: string | undefined, otherwise: number): number {
  if (text === undefined || text === '') return otherwise;
  return /^-?\d+$/.test(text) ? Number(text) : Number.NaN;
}
