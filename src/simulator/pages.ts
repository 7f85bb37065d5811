import type { Announcer } from './announcer.ts';
import type { AddRoute, Answer } from './answer.ts';
import { htmlType, parameter, unknownPath } from './answer.ts';
import type { Subscriptions } from './subscriptions.ts';
import type { Athlete, World } from './world.ts';

/** What the application requests. */
export interface ConsentRequest {
  clientId: string;
  redirectUri: string;
  scopes: readonly string[];
  state: string;
}

const meanings: Record<string, string> = {
  read: 'View your public profile',
  'activity:read': 'View your activities, except those only you can see',
  'activity:read_all': 'View your private activities as well',
  'profile:read_all': 'View your complete profile',
};

/** The page at `/`, where a person plays an athlete: records, renames and deletes activities, or leaves. */
export function addHomePage(add: AddRoute, world: World, subscriptions: Subscriptions, announcer: Announcer): void {
  add('get', '/', () => {
    const callback = subscriptions.list()[0]?.callbackUrl;
    const told =
      callback === undefined ? 'There is no subscription.' : `Events go to <code>${escapeHtml(callback)}</code>.`;
    const rows = world.athletes.map((athlete) => renderAthlete(world, athlete)).join('');
    return answerPage('Simulated provider', `<h1>Simulated provider</h1><p>${told}</p><table>${rows}</table>`);
  });
  // Performs a button's action; the webhook is sent after the answer.
  add('post', '/', (request) => {
    const action = parameter(request, 'action');
    const athleteId = parameter(request, 'athlete') ?? '';
    if (world.athlete(athleteId) === undefined) return unknownPath;
    const newest = world.newestFirst(athleteId)[0];
    if (action === 'record') void announcer.createActivity(athleteId);
    else if (action === 'leave') void announcer.deauthorize(athleteId);
    else if (action === 'rename' && newest) void announcer.updateActivity(newest.id, { name: `${newest.name}!` });
    else if (action === 'delete' && newest) void announcer.deleteActivity(newest.id);
    return { status: 303, body: '', headers: { Location: '/' } };
  });
}

function renderAthlete(world: World, athlete: Athlete): string {
  const activities = world.newestFirst(athlete.id);
  const newest = activities[0];
  const about = newest === undefined ? 'none yet' : `${activities.length}, newest: ${escapeHtml(newest.name)}`;
  return `<tr><td><b>${escapeHtml(athlete.name)}</b> <code>${athlete.id}</code><br>Activities: ${about}</td><td>
<form method="post" action="/"><input type="hidden" name="athlete" value="${athlete.id}">
<button name="action" value="record">Record an activity</button>
<button name="action" value="rename" class="quiet">Rename the newest</button>
<button name="action" value="delete" class="quiet">Delete the newest</button>
<button name="action" value="leave" class="quiet">Disconnect the application</button></form></td></tr>`;
}

/** The page on which a person picks an athlete, unticks scopes, and authorises or denies. */
export function answerConsentPage(request: ConsentRequest, athletes: readonly Athlete[]): Answer {
  const people = athletes
    .map((athlete) => `<option value="${athlete.id}">${escapeHtml(athlete.name)} (${athlete.id})</option>`)
    .join('');
  const scopes = request.scopes
    .map((scope) => {
      const name = escapeHtml(scope);
      const meaning = escapeHtml(meanings[scope] ?? scope);
      return `<label><input type="checkbox" name="scope" value="${name}" checked> ${meaning} <code>${name}</code></label>`;
    })
    .join('');
  const deny = people === '' ? '<p>There is no athlete yet; add one first.</p>' : '';
  return answerPage(
    'Authorise an application',
    `<h1>Simulated provider</h1>
<p>The application <b>${escapeHtml(request.clientId)}</b> would like to connect to an account.</p>${deny}
<form method="post" action="/oauth/authorize">
<input type="hidden" name="client_id" value="${escapeHtml(request.clientId)}">
<input type="hidden" name="redirect_uri" value="${escapeHtml(request.redirectUri)}">
<input type="hidden" name="requested" value="${escapeHtml(request.scopes.join(','))}">
<input type="hidden" name="state" value="${escapeHtml(request.state)}">
<label>Athlete <select name="athlete">${people}</select></label>
<fieldset><legend>Allow it to</legend>${scopes}</fieldset>
<button name="decision" value="authorize">Authorize</button>
<button name="decision" value="deny" class="quiet">Deny</button>
</form>`,
  );
}

/** A plain page in the simulator's style; `body` is HTML. */
function answerPage(title: string, body: string): Answer {
  const page = `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escapeHtml(title)}</title><style>
body{font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fafaf8}
label{display:block;margin:.4rem 0}fieldset{border:1px solid #ccc;border-radius:6px;margin:1rem 0}
button{font:inherit;padding:.4rem 1rem;border:0;border-radius:6px;background:#b8400a;color:#fff;cursor:pointer}
button.quiet{background:#e4e2dc;color:#222}table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .5rem;
border-bottom:1px solid #e4e2dc}form.inline{display:inline}code{color:#666;font-size:.85em}
</style></head><body>${body}</body></html>`;
  return { status: 200, body: page, type: htmlType };
}

/** Makes text safe inside HTML and attribute values. */
function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
