import { type Aspect, MAX_ATTEMPTS } from '../../src/domain/job.ts';
import { budgetMargins } from '../../src/queue/budget.ts';
import type { Settlement } from '../../src/queue/settlement.ts';
import { CONNECTED_ATHLETES } from './operations.ts';
import type { State } from './state.ts';
import {
  BACKOFF_MS,
  CALL_MS,
  CAPACITY,
  COOLDOWN_MS,
  type Happened,
  type HeldRun,
  STALE_AFTER_MS,
  START,
  WINDOW_MS,
} from './world.ts';

/** What the history so far says of one activity's request. */
interface Request {
  athleteId: string;
  aspect: Aspect;
  signed: boolean;
  /** Time of the newest event. */
  newestAt: number | undefined;
  /** Requests that want a run which begins after them, and how many of them a finished run has answered. */
  asked: number;
  answered: number;
  /** The run that holds the job, and how many requests it answers. */
  holder: { held: HeldRun; answers: number } | undefined;
  attempts: number;
  reclaims: number;
  failures: number;
  notBefore: number;
}

interface Call {
  athleteId: string;
  processId: number;
  isBackground: boolean;
  at: number;
  end: number;
}

/** An impossible history: the service has broken a promise. */
export class Violation extends Error {
  override name = 'Violation';
}

function must(holds: boolean, promise: string): asserts holds {
  if (!holds) throw new Violation(promise);
}

// By the real time that a settlement takes, its cooldown ends early: it counts from the call's end, by the process's clock.
const LATE_SETTLEMENT_MS = 3000;
const MARGINS = budgetMargins(WINDOW_MS);
const HOUR_MS = 3_600_000;

/** A small model of the queue: what each operation must come to, and what must then be in the database. */
export class Model {
  readonly #requests = new Map<string, Request>();
  readonly #activities = new Map<string, { athleteId: string; name: string }>();
  readonly #tombstones = new Set<string>();
  readonly #ledger = new Set<string>();
  readonly #calls: Call[] = [];
  readonly #dead = new Set<number>();
  #blockedUntil = 0;

  /** The model of the same history, to try another order of what follows. */
  clone(): Model {
    const copy = new Model();
    for (const [id, request] of this.#requests) copy.#requests.set(id, { ...request });
    for (const entry of this.#activities) copy.#activities.set(...entry);
    for (const id of this.#tombstones) copy.#tombstones.add(id);
    for (const key of this.#ledger) copy.#ledger.add(key);
    copy.#calls.push(...this.#calls.map((call) => ({ ...call })));
    for (const id of this.#dead) copy.#dead.add(id);
    copy.#blockedUntil = this.#blockedUntil;
    return copy;
  }

  /** @throws Violation */
  apply(happened: Happened): void {
    switch (happened.what) {
      case 'event':
        this.#event(happened);
        return;
      case 'request':
        this.#request(happened);
        return;
      case 'claim':
        this.#claim(happened);
        return;
      case 'settle':
        this.#settle(happened);
        return;
      case 'rescue':
        this.#rescue(happened);
        return;
      case 'retry':
        this.#retry(happened);
        return;
      case 'delete':
        must(this.#requests.delete(happened.activityId) === happened.deleted, 'a job that exists can be deleted');
        return;
      case 'crash':
        this.#dead.add(happened.processId);
        // A process's calls end with it.
        for (const call of this.#calls)
          if (call.processId === happened.processId) call.end = Math.min(call.end, happened.at);
        return;
      case 'nothing':
    }
  }

  #event({ operation, result, at }: Happened & { what: 'event' }): void {
    const { activityId, athleteId, aspect, signed, atMs } = operation;
    const eventAt = START + atMs;
    const key = `${activityId} ${aspect} ${eventAt}`;
    const stored = this.#activities.get(activityId);
    const known = this.#requests.get(activityId);
    const heardAt = Math.min(eventAt, at);
    let expected: typeof result = 'accepted';
    if (this.#ledger.has(key)) expected = 'duplicate';
    else if (aspect === 'delete' && (eventAt > at + HOUR_MS || (stored && stored.athleteId !== athleteId)))
      expected = 'refuted';
    else if (known?.newestAt !== undefined) {
      const isOlder = heardAt < known.newestAt;
      if (isOlder || (heardAt === known.newestAt && known.aspect === 'delete' && aspect !== 'delete'))
        expected = 'stale';
    }
    must(result === expected, `the event is ${expected}, not ${result}`);
    this.#ledger.add(key);
    if (result !== 'accepted') return;
    const request = this.#ask(activityId, athleteId, { aspect, signed });
    if (aspect !== 'delete' || signed) request.newestAt = heardAt;
    if (aspect === 'delete' && signed) request.notBefore = 0;
  }

  #request({ operation, result }: Happened & { what: 'request' }): void {
    const { activityId, athleteId, force } = operation;
    const known = this.#requests.get(activityId);
    const isOpen = known !== undefined && known.asked > known.answered;
    const joins = isOpen && !this.#moves(activityId, athleteId, false) && (!known.holder || !force);
    must(result === (joins ? 'joined' : 'accepted'), `the request is ${joins ? 'joined' : 'accepted'}, not ${result}`);
    if (!joins) this.#ask(activityId, athleteId, undefined);
  }

  /** Whether a request names another athlete than the one before, and takes its place. */
  #moves(activityId: string, athleteId: string, isEvent: boolean): boolean {
    const known = this.#requests.get(activityId);
    if (!known || known.athleteId === athleteId || this.#activities.get(activityId)?.athleteId === known.athleteId)
      return false;
    return known.asked === known.answered || known.aspect !== 'delete' || isEvent;
  }

  /** One more request, which wants a run that begins after it. */
  #ask(activityId: string, athleteId: string, event: { aspect: Aspect; signed: boolean } | undefined): Request {
    const fresh = { attempts: 0, reclaims: 0, notBefore: 0, holder: undefined };
    const known = this.#requests.get(activityId);
    const plain = { aspect: 'create', signed: false } as const;
    if (!known) {
      const first = { athleteId, newestAt: undefined, asked: 1, answered: 0, failures: 0, ...fresh };
      const request: Request = { ...first, ...(event ?? plain) };
      this.#requests.set(activityId, request);
      return request;
    }
    const isFinished = known.asked === known.answered;
    if (this.#moves(activityId, athleteId, event !== undefined))
      Object.assign(known, { athleteId }, keepReclaims(fresh, known, isFinished));
    if (isFinished) Object.assign(known, plain, fresh);
    if (event) Object.assign(known, event);
    known.asked += 1;
    return known;
  }

  #claim({ held, at }: Happened & { what: 'claim' }): void {
    if (!held) return; // what is claimed too late shows when the history is drained
    const { run } = held;
    const request = this.#requests.get(run.activityId);
    must(request !== undefined && request.asked > request.answered, 'only a job that was requested is claimed');
    must(request.holder === undefined, 'a job that runs is not claimed by another worker');
    must(request.athleteId === run.athleteId, 'the run knows its athlete');
    must(request.attempts === run.attempts, `the run knows of ${request.attempts} attempts, not ${run.attempts}`);
    must(at >= request.notBefore, 'a retry waits out its backoff');
    request.holder = { held, answers: request.asked };
    if (!run.needsCall) return;
    const { athleteId, reason } = run;
    this.#call({ athleteId, processId: held.processId, isBackground: reason !== 'webhook', at, end: at + CALL_MS });
  }

  #call(call: Call): void {
    const { at, athleteId } = call;
    must(CONNECTED_ATHLETES.includes(athleteId), 'no call is made for an athlete who is not connected');
    must(at >= this.#blockedUntil, 'no call is made before the time that a 429 gave');
    for (const other of this.#calls)
      must(
        other.athleteId !== athleteId || at >= other.end + COOLDOWN_MS - LATE_SETTLEMENT_MS,
        `athlete ${athleteId} is called ${at - other.end} ms after the end of their last call`,
      );
    this.#calls.push(call);
    // By the provider's clock, the call may reach it a little before or after ours says.
    const { guardMs, lagMs } = MARGINS;
    for (const edge of [at - guardMs, at + guardMs + lagMs]) {
      const start = windowOf(edge);
      const inWindow = this.#calls.filter(
        (one) => one.at + lagMs + guardMs >= start && one.at - guardMs < start + WINDOW_MS,
      );
      must(inWindow.length <= CAPACITY, `${inWindow.length} calls can fall into one window of ${CAPACITY}`);
    }
    const background = this.#calls.filter((one) => one.isBackground && windowOf(one.at) === windowOf(at)).length;
    must(background <= Math.floor(CAPACITY * 0.9), 'the last tenth of a window is kept for webhooks');
  }

  #settle({ held, settlement, calls, callEnd, result, at }: Happened & { what: 'settle' }): void {
    const { run } = held;
    must(calls === (run.needsCall ? 1 : 0), `a run makes the calls that it was granted, not ${calls}`);
    const call = this.#calls.find((one) => one.at === held.at && one.athleteId === run.athleteId);
    if (run.needsCall && call) call.end = callEnd;
    const request = this.#requests.get(run.activityId);
    const holder = request?.holder;
    if (!request || holder?.held.run.startedAt !== run.startedAt || holder.held.run.bossJobId !== run.bossJobId) {
      must(result === 'lost', 'a run that lost its claim writes nothing');
      return;
    }
    must(result !== 'lost', 'a run that holds its claim can settle');
    const isLast = run.attempts >= MAX_ATTEMPTS;
    if (settlement.kind === 'retry') {
      must(result === (isLast ? 'exhausted' : 'retry'), `attempt ${run.attempts} does not end with ${result}`);
      this.#countFailure(request, at + BACKOFF_MS);
      return;
    }
    request.holder = undefined;
    if (settlement.kind === 'release') {
      must(result === 'put_back', `a released job is put_back, not ${result}`);
      request.failures += 1;
      if (settlement.throttle?.waitMs !== undefined)
        this.#blockedUntil = Math.max(this.#blockedUntil, at + settlement.throttle.waitMs);
      return;
    }
    must(result === settlement.outcome, `the job ends with ${settlement.outcome}, not ${result}`);
    this.#applyEffect(run.activityId, run.athleteId, settlement);
    if (settlement.kind === 'ended' && settlement.error !== undefined) request.failures += 1;
    this.#end(request, holder.answers);
  }

  #applyEffect(activityId: string, athleteId: string, settlement: Settlement & { kind: 'stored' | 'ended' }): void {
    if (settlement.kind === 'stored') {
      this.#activities.set(activityId, { athleteId, name: settlement.activity.name });
      this.#tombstones.delete(activityId);
      return;
    }
    if (settlement.effect?.kind === 'delete') this.#tombstones.add(activityId);
    if (settlement.effect && this.#activities.get(activityId)?.athleteId === athleteId)
      this.#activities.delete(activityId);
  }

  #countFailure(request: Request, notBefore: number): void {
    const answers = request.holder?.answers ?? 0;
    request.failures += 1;
    request.holder = undefined;
    if (request.attempts >= MAX_ATTEMPTS) {
      this.#end(request, answers);
      return;
    }
    request.attempts += 1;
    request.notBefore = request.aspect === 'delete' && request.signed ? 0 : notBefore;
  }

  #end(request: Request, answers: number): void {
    Object.assign(request, { answered: answers, holder: undefined });
    if (request.asked > answers) Object.assign(request, { attempts: 0, reclaims: 0, notBefore: 0 });
  }

  #rescue({ dead, stale, at }: Happened & { what: 'rescue' }): void {
    const expected = { dead: 0, stale: 0 };
    for (const request of this.#requests.values()) {
      if (!request.holder) continue;
      const { held } = request.holder;
      const isDead = this.#dead.has(held.processId);
      if (!isDead && held.at >= at - STALE_AFTER_MS) continue;
      expected[isDead ? 'dead' : 'stale'] += 1;
      this.#countFailure(request, request.reclaims === 0 ? 0 : at + BACKOFF_MS);
      if (request.asked > request.answered) request.reclaims += 1;
    }
    must(dead === expected.dead, `${expected.dead} runs of dead workers are rescued, not ${dead}`);
    must(stale === expected.stale, `${expected.stale} stale runs are rescued, not ${stale}`);
  }

  #retry({ activityId, result }: Happened & { what: 'retry' }): void {
    const request = this.#requests.get(activityId);
    const expected = !request ? 'absent' : request.holder ? 'running' : 'retried';
    must(result === expected, `a retry finds the job ${expected}, not ${result}`);
    if (!request || request.holder) return;
    request.notBefore = 0;
    if (request.asked > request.answered) return;
    Object.assign(request, { asked: request.asked + 1, attempts: 0, reclaims: 0 });
  }

  /** @throws Violation where the database holds something else than the history led to */
  check(state: State, now: number): void {
    must(state.requests.length === this.#requests.size, 'there is one job for each activity that was requested');
    must(state.orphans === 0, 'pg-boss has no job without a request');
    for (const row of state.requests) {
      const what = `the job of activity ${row.activityId}`;
      const request = this.#requests.get(row.activityId);
      must(request !== undefined, `${what} was requested`);
      const isOpen = request.asked > request.answered;
      must(row.isOpen === isOpen, `${what} is ${isOpen ? 'open: a request is not answered' : 'finished'}`);
      must(row.running === (request.holder !== undefined), `${what} runs exactly while a worker holds it`);
      must(row.waiting === (isOpen && !request.holder), `${what} waits exactly while it is open and not held`);
      must(
        row.hasMoved === (request.holder !== undefined && request.asked > request.holder.answers),
        `${what} runs again exactly when it was requested again during its run`,
      );
      must(!row.waiting || row.hasDueLane, `${what} waits in a lane that is looked at when it is due`);
      must(row.processId === (request.holder?.held.processId ?? null), `${what} names the process that runs it`);
      must(row.athleteId === request.athleteId, `${what} is athlete ${request.athleteId}'s`);
      must(
        !isOpen || row.attempts === request.attempts,
        `${what} counts ${request.attempts} attempts, not ${row.attempts}`,
      );
      must(row.failures === request.failures, `${what} has ${request.failures} failed runs, not ${row.failures}`);
    }
    must(state.activities.length === this.#activities.size, 'what is stored is what the runs that settled have stored');
    for (const { activityId, athleteId, name } of state.activities) {
      const stored = this.#activities.get(activityId);
      must(
        stored?.athleteId === athleteId && stored.name === name,
        `activity ${activityId} is as the last run stored it`,
      );
    }
    must(state.tombstones.length === this.#tombstones.size, 'each deletion leaves a tombstone');
    const start = windowOf(now);
    const turnMs = MARGINS.guardMs + MARGINS.lagMs;
    const used = this.#calls.filter(({ at }) => windowOf(at) === start || (at < start && at >= start - turnMs)).length;
    must(state.used === used, `the budget has counted ${used} calls, not ${state.used}`);
  }

  /** @throws Violation where a request has been lost */
  checkDrained(): void {
    for (const [activityId, { asked, answered }] of this.#requests)
      must(asked === answered, `the request for activity ${activityId} is answered`);
  }
}

const windowOf = (at: number) => Math.floor(at / WINDOW_MS) * WINDOW_MS;

/** Another athlete's job is a new one, of the same request. */
function keepReclaims<T extends { reclaims: number }>(fresh: T, known: Request, isFinished: boolean): T {
  return isFinished ? fresh : { ...fresh, reclaims: known.reclaims };
}
