// @ts-check
// A remote worker for Gnomon: Node 20 or newer, no dependencies. The protocol is in
// docs/reference/worker-protocol.md; types are checked by `npx -p typescript tsc`.
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker as Thread, isMainThread, parentPort, workerData } from "node:worker_threads";

/**
 * @typedef {{ taskId: string, taskType: string, attempt: number, retriesLeft: number,
 *   idempotencyKey: string | null, signal: AbortSignal,
 *   progress: (fraction: number, message?: string) => void }} Context
 * @typedef {(payload: any, context: Context) => unknown} Handler
 * @typedef {{ url: string, key?: string, handlers: Record<string, Handler>, slots?: number,
 *   name?: string, drainSeconds?: number }} Options
 * @typedef {{ session_id: string, secret: string, lease_seconds: number, poll_seconds?: number,
 *   epoch?: string }} Session
 * @typedef {{ task_id: string, fence: number, [field: string]: any }} Delivery
 * @typedef {{ delivery: Delivery, abort: AbortController, report?: object, asking?: boolean,
 *   granted?: (granted: boolean) => void, progress?: object }} Held
 */

const LAST_STATUS = [401, 403, 404, 422]; // of an opening: the key or the options are wrong
const MOST = 1000; // reports, questions and notes of progress in a poll
const monotonic = () => Number(process.hrtime.bigint() / 1_000_000n); // ms, the same in all threads

/** Throw it to fail a task with more than an error: never again, or again after a while. */
export class TaskError extends Error {
  /** @param {string} message @param {{ retryable?: boolean, retryAfterSeconds?: number }} [how] */
  constructor(message, how = {}) {
    super(message);
    this.how = how;
  }
}

class Refused extends Error {
  /** @param {number} status @param {string} detail */
  constructor(status, detail) {
    super(`${status}: ${detail}`);
    this.status = status;
  }
}

/** @param {string} url @param {string} method @param {Record<string, string>} headers
 * @param {object | undefined} body @param {number} seconds */
async function call(url, method, headers, body, seconds) {
  const response = await fetch(url, {
    method,
    headers: { ...headers, "Content-Type": "application/json" },
    body: body && JSON.stringify(body),
    signal: AbortSignal.timeout(seconds * 1000),
  });
  const text = await response.text();
  if (response.ok) return text ? JSON.parse(text) : {};
  let problem = { title: text.slice(0, 200), detail: "" };
  try {
    problem = JSON.parse(text);
  } catch {} // a proxy's page
  throw new Refused(response.status, problem.detail || problem.title || response.statusText);
}

export class GnomonWorker {
  /** @type {Map<string, Held>} */ held = new Map();
  /** @type {Record<string, string>} */ auth = {};
  /** @type {Record<string, string>} */ headers = {};
  /** @type {Session} */ session;
  // When its event loop last made progress; until when it is trusted.
  shared = new Float64Array(new SharedArrayBuffer(16));
  openedAt = 0;
  drainUntil = 0;
  sequence = 0;

  /** @param {Options} options */
  constructor(options) {
    this.options = { slots: 50, name: `${hostname()}:${process.pid}`, drainSeconds: 20, ...options };
    this.root = options.url.replace(/\/+$/, "") + "/api/v1/worker-sessions";
    if (options.key) this.auth = { Authorization: `Bearer ${options.key}` };
    this.draining = false;
    this.news = () => {}; // call it when there is something to say
  }

  /** Run until SIGTERM or SIGINT; then end what runs, report it, and leave. */
  async run() {
    for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => this.drain());
    for (let failures = 0, first = true; !this.draining; ) {
      try {
        const session = await this.open();
        console.error(`worker started at ${this.options.url} as ${this.options.name}`);
        failures = 0;
        first = false;
        if (await this.serve(session)) return;
        console.error("the session has ended: opening a new one");
      } catch (error) {
        if (first && error instanceof Refused && LAST_STATUS.includes(error.status)) throw error;
        console.error(`no session: ${error}`);
        await sleep(pause(failures++));
      }
    }
  }

  drain() {
    this.draining = true;
    this.drainUntil = monotonic() + (this.options.drainSeconds ?? 20) * 1000;
    this.news();
  }

  /** @returns {Promise<Session>} */
  async open() {
    const { name, handlers, slots } = this.options;
    const body = { name, slots, handlers: Object.keys(handlers), client: "gnomon-example-js/1" };
    this.openedAt = monotonic();
    return await call(this.root, "POST", this.auth, body, 10);
  }

  /** Serve one session. @param {Session} session @returns {Promise<boolean>} whether it drained */
  async serve(session) {
    this.session = session;
    this.epoch = session.epoch ?? "";
    this.url = `${this.root}/${session.session_id}`;
    this.headers = { ...this.auth, "gnomon-session-secret": session.secret };
    this.sequence = 0;
    this.lost = false;
    this.wait = 0;
    this.held = new Map();
    // Beats come from a thread, and stop when this event loop does.
    const shared = this.shared;
    shared[0] = monotonic();
    shared[1] = this.openedAt + session.lease_seconds * 800;
    const progress = setInterval(() => (shared[0] = monotonic()), 200);
    const workerData = { shared, url: `${this.url}/beat`, headers: this.headers, lease: session.lease_seconds };
    const beats = new Thread(new URL(import.meta.url), { workerData });
    beats.on("message", (why) => this.lose(why));
    try {
      for (let failures = 0; !this.lost && !this.hasDrained(); ) {
        const news = new Promise((resolve) => (this.news = () => resolve(undefined)));
        const urgent = [...this.held.values()].some((h) => h.report || h.asking);
        const polling = this.poll().then(
          () => (failures = 0),
          (error) => this.failed(error, failures++),
        );
        // One that only waits is followed at once by the next, where there is something to say.
        await (urgent ? polling : Promise.race([polling, news]));
        if (this.wait) await sleep(this.wait);
      }
    } finally {
      clearInterval(progress);
      await beats.terminate();
      for (const { abort } of this.held.values()) abort.abort("the session has ended");
    }
    if (!this.lost) await call(this.url, "DELETE", this.headers, undefined, 10).catch(() => {});
    return !this.lost;
  }

  hasDrained() {
    return this.draining && (this.held.size === 0 || monotonic() > this.drainUntil);
  }

  /** @param {string} why */
  lose(why) {
    console.error(`the session is lost: ${why}`);
    this.lost = true;
    this.news();
  }

  /** @param {unknown} error @param {number} failures */
  failed(error, failures) {
    if (error instanceof Refused && [404, 410].includes(error.status)) return this.lose(error.message);
    if (failures % 20 === 0) console.error(`the gateway cannot be polled: ${error}`);
    this.wait = pause(failures);
  }

  async poll() {
    const sequence = ++this.sequence;
    const held = [...this.held.values()];
    const wait_seconds = this.session.poll_seconds ?? 20;
    const body = {
      sequence,
      epoch: this.epoch,
      slots: this.draining || !this.isTrusted() ? 0 : Math.max(0, (this.options.slots ?? 1) - held.length),
      wait_seconds,
      held: held.map((h) => fence(h.delivery)),
      reports: held.flatMap((h) => h.report ?? []).slice(0, MOST),
      begin: held.filter((h) => h.asking).map((h) => fence(h.delivery)).slice(0, MOST),
      progress: held.flatMap((h) => h.progress ?? []).slice(0, MOST),
    };
    const notes = new Map(held.map((h) => [h, h.progress]));
    this.wait = 0;
    const asked = monotonic();
    const answer = await call(`${this.url}/poll`, "POST", this.headers, body, wait_seconds + 10);
    if (sequence !== this.sequence || this.lost) return; // a newer one was sent: this one is void
    for (const [each, told] of notes) if (each.progress === told) delete each.progress;
    const said = this.take(answer);
    if (!said && monotonic() - asked < 50) this.wait = 100; // it did not wait
  }

  /** @param {any} answer @returns {boolean} whether it says anything new */
  take(answer) {
    const { acknowledged = [], begun = [], deliveries = [], cancel = [], command } = answer;
    const changed = this.epoch !== answer.epoch;
    this.epoch = answer.epoch;
    for (const each of acknowledged) this.held.delete(id(each));
    for (const each of begun) this.held.get(id(each))?.granted?.(each.granted);
    for (const each of cancel) this.held.get(id(each))?.abort.abort(each.reason ?? "cancelled");
    for (const each of deliveries) {
      if (this.held.has(id(each))) continue;
      const held = { delivery: each, abort: new AbortController() };
      this.held.set(id(each), held);
      void this.execute(held);
    }
    if (command === "drain") this.drain();
    if (command === "reopen") this.lose("the gateway asks for a new session");
    return changed || Boolean(command) || acknowledged.length + begun.length + deliveries.length > 0;
  }

  isTrusted() {
    return monotonic() < this.shared[1];
  }

  /** @param {Held} held */
  async execute(held) {
    const received = monotonic();
    const { delivery, abort } = held;
    const mayStart = () =>
      this.isTrusted() && !this.draining && !abort.signal.aborted &&
      monotonic() - received < delivery.start_within_seconds * 1000;
    if (delivery.asks && mayStart()) {
      const granted = new Promise((resolve) => (held.granted = resolve));
      held.asking = true;
      this.news();
      const late = sleep(delivery.start_within_seconds * 1000, false, { ref: false });
      const consent = await Promise.race([granted, late]);
      held.asking = false;
      if (!consent) return this.report(held, { outcome: "released" });
    }
    if (!mayStart()) return this.report(held, { outcome: "released" });
    const started_at = new Date().toISOString();
    const late = setTimeout(() => abort.abort("timeout"), delivery.timeout_seconds * 1000);
    const ended = new Promise((_, reject) =>
      abort.signal.addEventListener("abort", () => reject(abort.signal.reason)),
    );
    const handler = this.options.handlers[delivery.task_type];
    /** @type {Record<string, unknown>} */
    let report;
    try {
      const work = (async () => handler(delivery.payload, this.context(held)))();
      report = { outcome: "succeeded", result: (await Promise.race([work, ended])) ?? null };
    } catch (error) {
      report = abort.signal.aborted ? cutShort(abort.signal.reason) : failure(error);
    }
    clearTimeout(late);
    this.report(held, { ...report, started_at, finished_at: new Date().toISOString() });
  }

  /** @param {Held} held @returns {Context} */
  context(held) {
    const { delivery, abort } = held;
    return {
      taskId: delivery.task_id,
      taskType: delivery.task_type,
      attempt: delivery.attempt,
      retriesLeft: delivery.retries_left,
      idempotencyKey: delivery.idempotency_key,
      signal: abort.signal, // aborted when the handler is to end: cancelled, timed out, or lost
      progress: (fraction, message) => {
        held.progress = { ...fence(delivery), fraction, message };
        this.news();
      },
    };
  }

  /** @param {Held} held @param {object} what */
  report(held, what) {
    held.report = { ...fence(held.delivery), ...what };
    this.news();
  }
}

/** @param {{ task_id: string, fence: number }} each */
const id = (each) => `${each.task_id}:${each.fence}`;
/** @param {Delivery} delivery */
const fence = (delivery) => ({ task_id: delivery.task_id, fence: delivery.fence });
/** Milliseconds, with jitter. @param {number} failures */
const pause = (failures) => Math.min(5000, 100 * 2 ** Math.min(failures, 10)) * (0.5 + Math.random() / 2);
/** @param {string} reason */
const cutShort = (reason) =>
  reason === "timeout"
    ? { outcome: "timed_out", error: "did not end in time" }
    : { outcome: "cancelled", error: String(reason) };

/** @param {any} error */
function failure(error) {
  const { retryable, retryAfterSeconds } = error instanceof TaskError ? error.how : {};
  return {
    outcome: "failed",
    error: String(error).slice(0, 2000),
    traceback: String(error?.stack ?? "").slice(0, 16000) || undefined,
    retryable,
    retry_after_seconds: retryAfterSeconds,
  };
}

/** The thread: renews the lease while the event loop of the worker makes progress. */
async function beat() {
  const { shared, url, headers, lease } = workerData;
  for (;;) {
    await sleep((lease * 1000) / 5);
    const asked = monotonic();
    if (asked - shared[0] > lease * 500) continue; // it stands still: let the lease run out
    try {
      await call(url, "POST", headers, {}, lease / 4);
      shared[1] = asked + lease * 800; // a fifth less than the gateway gives
    } catch (error) {
      if (error instanceof Refused && [404, 410].includes(error.status)) {
        parentPort?.postMessage(error.message);
        return;
      }
    }
  }
}

if (!isMainThread && workerData?.lease) await beat();
