import type { Athlete } from './world.ts';

/** What the application asks for. */
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

/** The page on which a person picks an athlete, unticks scopes, and authorises or denies. */
export function renderConsentPage(request: ConsentRequest, athletes: readonly Athlete[]): string {
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
  return renderPage(
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
export function renderPage(title: string, body: string): string {
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escapeHtml(title)}</title><style>
body{font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fafaf8}
label{display:block;margin:.4rem 0}fieldset{border:1px solid #ccc;border-radius:6px;margin:1rem 0}
button{font:inherit;padding:.4rem 1rem;border:0;border-radius:6px;background:#b8400a;color:#fff;cursor:pointer}
button.quiet{background:#e4e2dc;color:#222}table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .5rem;
border-bottom:1px solid #e4e2dc}form.inline{display:inline}code{color:#666;font-size:.85em}
</style></head><body>${body}</body></html>`;
}

/** Makes text safe inside HTML and attribute values. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
