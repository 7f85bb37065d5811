import type { EventEmitter } from 'node:events';
import type { DeliveryAttempt } from './webhook-sender.ts';

const mostKept = 500_000;

/** One call to the simulator. `status` is 0 while it is open, and stays 0 when it never got an answer. */
export interface CallRecord {
  /** Arrival in epoch milliseconds of the provider's clock. */
  readonly at: number;
  readonly method: string;
  readonly path: string;
  /** Raw query; left out where it would carry credentials. */
  readonly query: string;
  readonly athleteId: string | undefined;
  readonly activityId: string | undefined;
  readonly userAgent: string | undefined;
  status: number;
  /** Whether the call counts against the rate windows. */
  readonly counted: boolean;
  /** Start of the short window it fell into, in epoch milliseconds. */
  readonly window: number;
  /** Whether the exchange is over. */
  answered: boolean;
}

/** What the simulator emits: a call that arrived, a finished one, an attempt to deliver an event. */
export type Signals = EventEmitter<{ arrival: [CallRecord]; call: [CallRecord]; delivery: [DeliveryAttempt] }>;

/** Every call in order of arrival; emits `arrival` when one arrives and `call` when it is finished. */
export class CallLog {
  readonly #signals: Signals;
  readonly calls: CallRecord[] = [];

  constructor(signals: Signals) {
    this.#signals = signals;
  }

  open(record: CallRecord): void {
    this.calls.push(record);
    if (this.calls.length > mostKept) this.calls.splice(0, mostKept / 10);
    this.#signals.emit('arrival', record);
  }

  finish(record: CallRecord, status: number): void {
    if (record.answered) return;
    record.status = status;
    record.answered = true;
    this.#signals.emit('call', record);
  }

  /** The first finished call that matches, past or future. Rejects after the timeout with the calls that came. */
  waitForCall(fits: (record: CallRecord) => boolean, timeoutMs: number): Promise<CallRecord> {
    return this.#wait('call', (record) => record.answered && fits(record), timeoutMs);
  }

  /** The first call that matches, past or future, as soon as it has arrived. */
  waitForArrival(fits: (record: CallRecord) => boolean, timeoutMs: number): Promise<CallRecord> {
    return this.#wait('arrival', fits, timeoutMs);
  }

  #wait(signal: 'arrival' | 'call', fits: (record: CallRecord) => boolean, timeoutMs: number): Promise<CallRecord> {
    const past = this.calls.find(fits);
    if (past !== undefined) return Promise.resolve(past);
    return new Promise((resolve, reject) => {
      const listener = (record: CallRecord) => {
        if (!fits(record)) return;
        clearTimeout(timer);
        this.#signals.off(signal, listener);
        resolve(record);
      };
      const timer = setTimeout(() => {
        this.#signals.off(signal, listener);
        const last = this.calls.slice(-5).map((record) => `${record.method} ${record.path} ${record.status}`);
        reject(new Error(`No such call within ${timeoutMs} ms; the last of ${this.calls.length}: ${last.join('; ')}`));
      }, timeoutMs);
      this.#signals.on(signal, listener);
    });
  }
}
