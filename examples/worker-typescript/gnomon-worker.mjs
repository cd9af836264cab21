// @ts-check
// A remote worker for Gnomon: Node 20 or newer, no dependencies. The protocol is in
// docs/reference/worker-protocol.md; `npx -p typescript -p @types/node tsc` checks the types.
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * @typedef {{ task_id: string, fence: number }} Claim
 * @typedef {Claim & { task_type: string, payload: any, attempt: number, retries_left: number,
 *   idempotency_key: string | null, timeout_seconds: number, start_within_seconds: number,
 *   asks: boolean }} Task
 * @typedef {{ task: Task, signal: AbortSignal,
 *   progress: (fraction: number, message?: string) => void }} Context
 * @typedef {(payload: any, context: Context) => unknown} Handler
 * @typedef {{ url: string, handlers: Record<string, Handler>, key?: string, name?: string,
 *   slots?: number, drainSeconds?: number }} Options
 * @typedef {{ session_id: string, secret: string, epoch: string, lease_seconds: number,
 *   beat_seconds: number, poll_seconds: number }} Session
 * @typedef {{ task: Task, abort: AbortController, report?: object, note?: object,
 *   granted?: (granted: boolean) => void }} Held
 */

const MOST = 1000; // reports, questions and notes of progress in a poll
const REFUSED = [401, 403, 404, 422]; // an opening: the key or the options are wrong
const ms = () => performance.now();
/** @param {Claim} of */
const claim = ({ task_id, fence }) => ({ task_id, fence });
/** @param {Claim} of */
const id = ({ task_id, fence }) => `${task_id}:${fence}`;
/** Milliseconds, with jitter. @param {number} failures */
const pause = (failures) => Math.min(5000, 100 * 2 ** Math.min(failures, 6)) * (0.5 + Math.random() / 2);
/** @param {any} error */
const isGone = (error) => [404, 410].includes(error.status);

/** A handler throws any error to fail a task, with `retryable: false` or `retryAfterSeconds` if need be. */
export class GnomonWorker {
  /** @type {Map<string, Held>} */ held = new Map();
  /** @type {Session} */ session;
  news = () => {}; // there is something to say
  draining = false;
  drainUntil = 0;
  trustedUntil = 0; // by its lease; later it starts nothing
  lost = false;
  sequence = 0;

  /** @param {Options} options */
  constructor(options) {
    this.options = { slots: 50, name: `${hostname()}:${process.pid}`, drainSeconds: 20, ...options };
    this.root = `${options.url.replace(/\/+$/, "")}/api/v1/worker-sessions`;
  }

  /** Run until SIGTERM or SIGINT; then end what runs, report it, and leave. */
  async run() {
    for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => this.drain());
    for (let failures = 0, first = true; !this.draining; ) {
      try {
        await this.open();
        console.error(`worker started at ${this.options.url} as ${this.options.name}`);
        [failures, first] = [0, false];
        await this.serve();
      } catch (error) {
        if (first && REFUSED.includes(error.status)) throw error;
        console.error(`no session: ${error.message}`);
        await sleep(pause(failures++));
      }
    }
  }

  drain() {
    if (!this.draining) this.drainUntil = ms() + this.options.drainSeconds * 1000;
    this.draining = true;
    this.news();
  }

  async open() {
    const { name, slots, handlers } = this.options;
    const asked = ms();
    const body = { name, slots, handlers: Object.keys(handlers), client: "gnomon-example-js/1" };
    this.session = await this.call("POST", "", body, 10);
    this.renewed(asked);
    [this.held, this.lost, this.sequence] = [new Map(), false, 0];
  }

  async serve() {
    const beats = setInterval(() => this.beat(), this.session.beat_seconds * 1000);
    const drained = () => this.draining && (this.held.size === 0 || ms() > this.drainUntil);
    for (let failures = 0; !this.lost && !drained(); ) {
      const news = new Promise((resolve) => (this.news = () => resolve(0)));
      const [session, body] = [this.session, this.message()];
      const polling = this.poll(body).then(
        (wait) => ((failures = 0), wait),
        (error) => this.failed(session, error, failures++),
      );
      // One that only waits is followed by the next where there is something to say, which voids it.
      const urgent = body.reports.length + body.begin.length > 0;
      await sleep(await (urgent ? polling : Promise.race([polling, news])));
    }
    clearInterval(beats);
    for (const { abort } of this.held.values()) abort.abort("the session has ended");
    if (!this.lost) await this.call("DELETE", `/${this.session.session_id}`, undefined, 10).catch(() => {});
  }

  /** A timer's: it stands still when the event loop does. */
  async beat() {
    const [session, asked] = [this.session, ms()];
    try {
      await this.call("POST", `/${session.session_id}/beat`, {}, session.lease_seconds / 4);
      if (session === this.session) this.renewed(asked);
    } catch (error) {
      if (isGone(error)) this.lose(session, error);
    }
  }

  /** @param {number} asked */
  renewed(asked) {
    this.trustedUntil = asked + this.session.lease_seconds * 800; // a fifth less than the gateway gives
  }

  /** @param {Session} session @param {Error} why */
  lose(session, why) {
    if (session !== this.session || this.lost) return;
    console.error(`opening a new session: ${why.message}`);
    this.lost = true;
    this.news();
  }

  /** @param {Session} session @param {any} error @param {number} failures */
  failed(session, error, failures) {
    if (isGone(error)) this.lose(session, error);
    else if (failures % 20 === 0) console.error(`the gateway cannot be polled: ${error.message}`);
    return pause(failures);
  }

  /** All that is to be said: the same again until it is answered. */
  message() {
    const held = [...this.held.values()];
    const free = this.draining || ms() > this.trustedUntil ? 0 : this.options.slots - held.length;
    return {
      sequence: ++this.sequence,
      epoch: this.session.epoch,
      slots: Math.max(0, free),
      wait_seconds: this.session.poll_seconds,
      held: held.map((each) => claim(each.task)),
      reports: held.flatMap((each) => each.report ?? []).slice(0, MOST),
      begin: held.flatMap((each) => (each.granted ? claim(each.task) : [])).slice(0, MOST),
      progress: held.flatMap((each) => each.note ?? []).slice(0, MOST),
    };
  }

  /** @param {any} body @returns {Promise<number>} milliseconds to wait before the next */
  async poll(body) {
    const [session, asked] = [this.session, ms()];
    const path = `/${session.session_id}/poll`;
    const answer = await this.call("POST", path, body, body.wait_seconds + 10);
    // Void: a newer one was sent, or the session is over.
    if (body.sequence !== this.sequence || this.lost || session !== this.session) return 0;
    const { acknowledged = [], begun = [], deliveries = [], cancel = [] } = answer;
    const said = acknowledged.length + begun.length + deliveries.length > 0;
    const idle = !said && answer.epoch === session.epoch && ms() - asked < 50; // it did not wait
    session.epoch = answer.epoch;
    for (const note of body.progress) {
      const held = this.held.get(id(note));
      if (held?.note === note) delete held.note;
    }
    for (const each of acknowledged) this.held.delete(id(each));
    for (const each of begun) this.held.get(id(each))?.granted?.(each.granted);
    for (const each of cancel) this.held.get(id(each))?.abort.abort(each.reason);
    for (const task of deliveries) {
      if (this.held.has(id(task))) continue;
      const held = { task, abort: new AbortController() };
      this.held.set(id(task), held);
      void this.execute(held);
    }
    if (answer.command === "drain") this.drain();
    return idle ? 100 : 0;
  }

  /** @param {Held} held */
  async execute(held) {
    const { task, abort } = held;
    const latest = ms() + task.start_within_seconds * 1000;
    const mayStart = () =>
      ms() < Math.min(latest, this.trustedUntil) && !this.draining && !abort.signal.aborted;
    if (!mayStart() || (task.asks && !(await this.consent(held, latest))) || !mayStart())
      return this.report(held, { outcome: "released" });
    const started_at = new Date().toISOString();
    const cut = new Promise((_, reject) => abort.signal.addEventListener("abort", reject));
    const late = setTimeout(() => abort.abort("timeout"), task.timeout_seconds * 1000);
    const progress = (/** @type {number} */ fraction, /** @type {string=} */ message) => {
      held.note = { ...claim(task), fraction, message };
      this.news();
    };
    const handler = this.options.handlers[task.task_type];
    let report;
    try {
      const work = (async () => handler(task.payload, { task, signal: abort.signal, progress }))();
      report = { outcome: "succeeded", result: (await Promise.race([work, cut])) ?? null };
    } catch (error) {
      report = abort.signal.aborted ? cutShort(abort.signal.reason) : failure(error);
    }
    clearTimeout(late);
    this.report(held, { ...report, started_at, finished_at: new Date().toISOString() });
  }

  /** Ask whether it may begin. @param {Held} held @param {number} latest */
  async consent(held, latest) {
    const granted = new Promise((resolve) => (held.granted = resolve));
    this.news();
    const said = await Promise.race([granted, sleep(Math.max(0, latest - ms()), false)]);
    delete held.granted;
    return said;
  }

  /** @param {Held} held @param {object} became */
  report(held, became) {
    held.report = { ...claim(held.task), ...became };
    this.news();
  }

  /** @param {string} method @param {string} path @param {object | undefined} body @param {number} seconds */
  async call(method, path, body, seconds) {
    /** @type {Record<string, string>} */
    const headers = { "Content-Type": "application/json" };
    if (this.options.key) headers.Authorization = `Bearer ${this.options.key}`;
    if (path) headers["gnomon-session-secret"] = this.session.secret;
    const signal = AbortSignal.timeout(seconds * 1000);
    const answer = await fetch(this.root + path, { method, headers, body: body && JSON.stringify(body), signal });
    const text = await answer.text();
    if (answer.ok) return text ? JSON.parse(text) : {};
    throw Object.assign(new Error(`${answer.status}: ${text.slice(0, 300)}`), { status: answer.status });
  }
}

/** @param {string} reason */
const cutShort = (reason) =>
  reason === "timeout"
    ? { outcome: "timed_out", error: "did not end in time" }
    : { outcome: "cancelled", error: reason };

/** @param {any} error */
const failure = (error) => ({
  outcome: "failed",
  error: String(error).slice(0, 2000),
  traceback: String(error?.stack ?? "").slice(0, 16000) || undefined,
  retryable: error?.retryable,
  retry_after_seconds: error?.retryAfterSeconds,
});
