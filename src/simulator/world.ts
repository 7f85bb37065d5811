import { type EntityId, toEntityId } from './entity-id.ts';
import { type LatLng, type Place, places } from './places.ts';
import { hashText, pickOne, seedRandom } from './random.ts';
import { type ActivityKind, describeRoute, type Route, RouteBook } from './route-book.ts';
import { type Sport, sportNamed, sports } from './sports.ts';

export interface Athlete {
  readonly id: string;
  readonly name: string;
  readonly place: Place;
}

/** What a caller may set for an activity; the rest gets plausible values. */
export interface ActivityFields {
  kind?: ActivityKind;
  name?: string;
  description?: string | null;
  sportType?: string;
  /** Start as a Date, an ISO text or epoch milliseconds. */
  startDate?: Date | string | number;
  distanceMetres?: number;
  movingSeconds?: number;
  elapsedSeconds?: number;
  elevationGainMetres?: number;
  private?: boolean;
  /** The route as points, instead of a drawn one. */
  points?: readonly LatLng[];
  /** The route as a polyline, instead of a drawn one; distance and ends are then the caller's to give. */
  polyline?: string;
}

export interface NewActivity extends ActivityFields {
  id?: EntityId;
}

export interface Activity {
  readonly id: string;
  readonly athleteId: string;
  readonly place: Place;
  readonly number: number;
  kind: ActivityKind;
  name: string;
  description: string | null;
  sport: Sport;
  startMs: number;
  distanceMetres: number;
  movingSeconds: number;
  elapsedSeconds: number;
  elevationGainMetres: number;
  private: boolean;
  route: Route;
}

/** Athletes and their activities as the provider knows them. */
export class World {
  readonly #seed: number;
  readonly #now: () => number;
  readonly #routes: RouteBook;
  readonly #athletes = new Map<string, Athlete>();
  readonly #activities = new Map<string, Activity>();
  readonly #lists = new Map<string, { activities: Activity[]; sorted: boolean }>();
  #nextAthleteId = 7_000_001;
  #nextActivityId = 10_000_000_001;
  #created = 0;

  constructor(seed: number, now: () => number) {
    this.#seed = seed;
    this.#now = now;
    this.#routes = new RouteBook(seed);
  }

  get athletes(): Athlete[] {
    return [...this.#athletes.values()];
  }

  /** Adds an athlete. Throws when the id is taken. */
  addAthlete(fields: { id?: EntityId; name?: string } = {}): Athlete {
    const id = fields.id === undefined ? String(this.#nextAthleteId++) : toEntityId(fields.id);
    if (this.#athletes.has(id)) throw new Error(`Athlete ${id} exists already`);
    const random = seedRandom(hashText(this.#seed, `athlete ${id}`));
    const place = places[this.#athletes.size % places.length] as Place;
    const name = fields.name ?? `${pickOne(firstNames, random)} ${pickOne(lastNames, random)}`;
    const athlete = { id, name, place };
    this.#athletes.set(id, athlete);
    this.#lists.set(id, { activities: [], sorted: true });
    return athlete;
  }

  athlete(id: string): Athlete | undefined {
    return this.#athletes.get(id);
  }

  /** Adds an activity. Throws for an unknown athlete and for an id that is taken. */
  addActivity(athleteId: EntityId, fields: NewActivity = {}): Activity {
    const athlete = this.#athletes.get(toEntityId(athleteId));
    const list = this.#lists.get(toEntityId(athleteId));
    if (athlete === undefined || list === undefined) throw new Error(`No athlete ${athleteId}; add one first`);
    const id = fields.id === undefined ? String(this.#nextActivityId++) : toEntityId(fields.id);
    if (this.#activities.has(id)) throw new Error(`Activity ${id} exists already`);
    const activity = this.#inventActivity(id, athlete, fields);
    this.#activities.set(id, activity);
    list.activities.push(activity);
    list.sorted = false;
    return activity;
  }

  activity(id: string): Activity | undefined {
    return this.#activities.get(id);
  }

  /** Changes an activity. Throws when there is none. */
  updateActivity(id: EntityId, fields: ActivityFields): Activity {
    const activity = this.#existing(id);
    if (fields.kind !== undefined || fields.sportType !== undefined) {
      activity.kind = fields.kind ?? activity.kind;
      activity.sport = fields.sportType === undefined ? activity.sport : sportNamed(fields.sportType);
      if (fields.kind !== undefined) {
        activity.route = this.#routes.routeFor(activity.kind, activity.place, activity.sport, activity.number);
        activity.distanceMetres = activity.route.distanceMetres;
      }
    }
    assignGiven(activity, fields);
    const list = this.#lists.get(activity.athleteId);
    if (list !== undefined && fields.startDate !== undefined) list.sorted = false;
    return activity;
  }

  /** Removes an activity and returns what it was. Throws when there is none. */
  deleteActivity(id: EntityId): Activity {
    const activity = this.#existing(id);
    this.#activities.delete(activity.id);
    const list = this.#lists.get(activity.athleteId);
    if (list !== undefined) list.activities.splice(list.activities.indexOf(activity), 1);
    return activity;
  }

  /** An athlete's activities, newest start first; equal starts by descending id. */
  newestFirst(athleteId: string): readonly Activity[] {
    const list = this.#lists.get(athleteId);
    if (list === undefined) return [];
    if (!list.sorted) {
      list.activities.sort((a, b) => b.startMs - a.startMs || compareIds(b.id, a.id));
      list.sorted = true;
    }
    return list.activities;
  }

  #existing(id: EntityId): Activity {
    const activity = this.#activities.get(toEntityId(id));
    if (activity === undefined) throw new Error(`No activity ${id}`);
    return activity;
  }

  #inventActivity(id: string, athlete: Athlete, fields: NewActivity): Activity {
    const number = hashText(this.#seed, `${athlete.id} ${this.#created++}`);
    const random = seedRandom(number);
    const kind = fields.kind ?? 'route';
    const sport = fields.sportType === undefined ? pickOne(sports, random) : sportNamed(fields.sportType);
    const route = this.#routes.routeFor(kind, athlete.place, sport, number);
    const unmeasured = kind === 'indoor' || kind === 'manual' ? sport.radiusMetres * (3 + random() * 3) : 0;
    const distance = fields.distanceMetres ?? (route.distanceMetres || Math.round(unmeasured));
    const moving = fields.movingSeconds ?? Math.round(distance / (sport.metresPerSecond * (0.85 + random() * 0.3)));
    const elapsed = fields.elapsedSeconds ?? Math.round(moving * (1 + random() * 0.12));
    const startMs = fields.startDate === undefined ? wholeSecond(this.#now() - elapsed * 1_000) : 0;
    const climb = (distance / 1_000) * sport.climbPerKilometre * (0.5 + random());
    const activity: Activity = {
      id,
      athleteId: athlete.id,
      place: athlete.place,
      number,
      kind,
      name: '',
      description: null,
      sport,
      startMs,
      distanceMetres: distance,
      movingSeconds: moving,
      elapsedSeconds: elapsed,
      elevationGainMetres: kind === 'indoor' ? 0 : Math.round(climb),
      private: false,
      route,
    };
    assignGiven(activity, fields);
    if (fields.name === undefined) activity.name = nameByDaytime(activity);
    return activity;
  }
}

const firstNames = [
  'Ada',
  'Bruno',
  'Chiara',
  'Daan',
  'Eliud',
  'Freya',
  'Goran',
  'Hanna',
  'Ines',
  'Jomo',
  'Kenji',
  'Lena',
];
const lastNames = ['Abbott', 'Bakker', 'Costa', 'Dietrich', 'Eriksen', 'Fischer', 'Garcia', 'Hughes', 'Ito', 'Kamau'];

function assignGiven(activity: Activity, fields: ActivityFields): void {
  activity.name = fields.name ?? activity.name;
  if (fields.description !== undefined) activity.description = fields.description;
  if (fields.startDate !== undefined) activity.startMs = new Date(fields.startDate).getTime();
  if (fields.points !== undefined) {
    activity.route = describeRoute(fields.points);
    activity.distanceMetres = activity.route.distanceMetres;
  }
  if (fields.polyline !== undefined) {
    const literal = JSON.stringify(fields.polyline);
    activity.route = { ...activity.route, polylineJson: literal, summaryJson: literal };
  }
  activity.distanceMetres = fields.distanceMetres ?? activity.distanceMetres;
  activity.movingSeconds = fields.movingSeconds ?? activity.movingSeconds;
  activity.elapsedSeconds = fields.elapsedSeconds ?? activity.elapsedSeconds;
  activity.elevationGainMetres = fields.elevationGainMetres ?? activity.elevationGainMetres;
  activity.private = fields.private ?? activity.private;
}

function nameByDaytime(activity: Activity): string {
  const hour = new Date(activity.startMs + activity.place.utcOffsetSeconds * 1_000).getUTCHours();
  const daytime =
    hour < 5 ? 'Night' : hour < 11 ? 'Morning' : hour < 14 ? 'Lunch' : hour < 18 ? 'Afternoon' : 'Evening';
  return `${daytime} ${activity.sport.noun}`;
}

function wholeSecond(ms: number): number {
  return Math.floor(ms / 1_000) * 1_000;
}

function compareIds(a: string, b: string): number {
  return a.length - b.length || (a < b ? -1 : a > b ? 1 : 0);
}
