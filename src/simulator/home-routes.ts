import type { Announcer } from './announcer.ts';
import { escapeHtml, renderPage } from './consent-page.ts';
import { type Answer, answerHtml, type Call, unknownPath } from './exchange.ts';
import type { SubscriptionRegistry } from './subscription-registry.ts';
import type { Athlete, World } from './world.ts';

/** The page at `/`, where a person plays an athlete: records, renames and deletes activities, or leaves. */
export class HomeRoutes {
  readonly #world: World;
  readonly #subscriptions: SubscriptionRegistry;
  readonly #announcer: Announcer;

  constructor(world: World, subscriptions: SubscriptionRegistry, announcer: Announcer) {
    this.#world = world;
    this.#subscriptions = subscriptions;
    this.#announcer = announcer;
  }

  answer(call: Call): Answer {
    if (call.path !== '/') return unknownPath;
    if (call.method === 'GET') return answerHtml(200, this.#render());
    if (call.method !== 'POST') return unknownPath;
    return this.#act(call.fields.get('action') ?? '', call.fields.get('athlete') ?? '');
  }

  /** Does what a button says; the webhook goes out behind the answer. */
  #act(action: string, athleteId: string): Answer {
    if (this.#world.athlete(athleteId) === undefined) return unknownPath;
    const newest = this.#world.newestFirst(athleteId)[0];
    if (action === 'record') void this.#announcer.createActivity(athleteId);
    else if (action === 'leave') void this.#announcer.deauthorize(athleteId);
    else if (action === 'rename' && newest) void this.#announcer.updateActivity(newest.id, { name: `${newest.name}!` });
    else if (action === 'delete' && newest) void this.#announcer.deleteActivity(newest.id);
    return { status: 303, body: '', headers: { Location: '/' } };
  }

  #render(): string {
    const callback = this.#subscriptions.list()[0]?.callbackUrl;
    const told =
      callback === undefined ? 'Nobody is subscribed.' : `Events go to <code>${escapeHtml(callback)}</code>.`;
    const rows = this.#world.athletes.map((athlete) => this.#renderAthlete(athlete)).join('');
    return renderPage('Simulated provider', `<h1>Simulated provider</h1><p>${told}</p><table>${rows}</table>`);
  }

  #renderAthlete(athlete: Athlete): string {
    const activities = this.#world.newestFirst(athlete.id);
    const newest = activities[0];
    const about = newest === undefined ? 'none yet' : `${activities.length}, newest: ${escapeHtml(newest.name)}`;
    return `<tr><td><b>${escapeHtml(athlete.name)}</b> <code>${athlete.id}</code><br>Activities: ${about}</td><td>
<form method="post" action="/"><input type="hidden" name="athlete" value="${athlete.id}">
<button name="action" value="record">Record an activity</button>
<button name="action" value="rename" class="quiet">Rename the newest</button>
<button name="action" value="delete" class="quiet">Delete the newest</button>
<button name="action" value="leave" class="quiet">Disconnect the application</button></form></td></tr>`;
  }
}
