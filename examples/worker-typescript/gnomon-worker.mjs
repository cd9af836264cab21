// @ts-check
// A remote worker for Gnomon without dependencies, for Node 20 and whatever else has `fetch`. The
// protocol is in docs/reference/worker-protocol.md; `npx -p typescript tsc` checks the types.

/**
 * @typedef {{ task_id: string, fence: number }} Claim
 * @typedef {Claim & { task_type: string, payload: any, attempt: number, retries_left: number,
 *   idempotency_key: string | null, timeout_seconds: number, start_within_seconds: number,
 *   asks: boolean }} Task
 * @typedef {{ task: Task, signal: AbortSignal,
 *   progress: (fraction: number, message?: string) => void }} Context
 * @typedef {(payload: any, context: Context) => unknown} Handler
 * @typedef {{ url: string, name: string, handlers: Record<string, Handler>, key?: string,
 *   slots?: number, drainSeconds?: number }} Options
 * @typedef {{ session_id: string, secret: string, epoch: string, lease_seconds: number,
 *   beat_seconds: number, poll_seconds: number }} Opened
 * @typedef {{ task: Task, abort: AbortController, report?: object, note?: object,
 *   granted?: (granted: boolean) => void }} Held
 */

const MOST = 1000; // reports, questions and notes of progress in a poll
const now = () => performance.now() / 1000; // all times are in seconds
/** @param {number} seconds */
const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));
/** With jitter. @param {number} failures */
const pause = (failures) => sleep(Math.min(5, 0.1 * 2 ** failures) * (0.5 + Math.random() / 2));
/** @param {Claim} of */
const claim = ({ task_id, fence }) => ({ task_id, fence });
/** @param {Claim} of */
const id = ({ task_id, fence }) => `${task_id}:${fence}`;

/** A handler throws any error to fail a task, with `retryable: false` or `retryAfterSeconds` if need be. */
export class GnomonWorker {
  drainUntil = Infinity;
  /** @type {Session | undefined} */ session;

  /** @param {Options} options */
  constructor(options) {
    this.options = { slots: 50, drainSeconds: 20, key: "", ...options };
  }

  get draining() {
    return this.drainUntil < Infinity;
  }

  /** Serve until `drain` is called, here or by the gateway's command. */
  async run() {
    for (let failures = 0, first = true; !this.draining; ) {
      try {
        this.session = new Session(this);
        await this.session.open();
        console.error(`worker started at ${this.options.url} as ${this.options.name}`);
        [failures, first] = [0, false];
        await this.session.serve();
      } catch (/** @type {any} */ error) {
        if (first && [401, 403, 404, 422].includes(error.status)) throw error; // wrong key or options
        console.error(`no session: ${error.message}`);
        await pause(failures++);
      }
    }
  }

  /** Start nothing more, end what runs, report it, and leave. */
  drain() {
    this.drainUntil = Math.min(this.drainUntil, now() + this.options.drainSeconds);
    this.session?.news();
  }
}

/** One session: what comes late for it changes nothing of the next. */
class Session {
  /** @type {Map<string, Held>} */ held = new Map();
  /** @type {Opened} */ opened;
  news = () => {}; // there is something to say
  sequence = 0;
  trustedUntil = 0; // by its lease; later it starts nothing
  lost = false;

  /** @param {GnomonWorker} worker */
  constructor(worker) {
    this.worker = worker;
    this.root = `${worker.options.url.replace(/\/+$/, "")}/api/v1/worker-sessions`;
  }

  async open() {
    const { name, slots, handlers } = this.worker.options;
    const asked = now();
    const body = { name, slots, handlers: Object.keys(handlers), client: "gnomon-example-js/1" };
    this.opened = await this.call("POST", "", body, 10);
    this.renewed(asked, this.opened.lease_seconds);
  }

  async serve() {
    const beats = setInterval(() => this.beat(), this.opened.beat_seconds * 1000);
    const drained = () => this.worker.draining && (this.held.size === 0 || now() > this.worker.drainUntil);
    for (let failures = 0; !this.lost && !drained(); ) {
      const news = new Promise((resolve) => (this.news = () => resolve(0)));
      const body = this.message();
      const polling = this.poll(body).then(
        () => (failures = 0),
        (error) => this.failed(error) || pause(failures++),
      );
      // One that only waits is followed by the next where there is something to say, which voids it.
      const urgent = body.reports.length + body.begin.length > 0;
      await (urgent ? polling : Promise.race([polling, news]));
    }
    clearInterval(beats);
    for (const { abort } of this.held.values()) abort.abort("the session has ended");
    if (!this.lost) await this.call("DELETE", `/${this.opened.session_id}`, undefined, 10).catch(() => {});
  }

  /** By a timer, which stands still when the event loop does. */
  beat() {
    const asked = now();
    const beating = this.call("POST", `/${this.opened.session_id}/beat`, {}, this.opened.lease_seconds / 4);
    beating.then(({ lease_seconds }) => this.renewed(asked, lease_seconds), (error) => this.failed(error));
  }

  /** @param {number} asked @param {number} lease */
  renewed(asked, lease) {
    this.trustedUntil = asked + Math.min(lease, this.opened.lease_seconds) * 0.8; // a fifth less than the gateway gives
  }

  /** Whether the session is over. @param {any} error */
  failed(error) {
    console.error(`the gateway: ${error.message}`);
    if ([404, 410].includes(error.status)) this.lost = true;
    if (this.lost) this.news();
    return this.lost;
  }

  /** All that is to be said: the same again until it is answered. */
  message() {
    const held = [...this.held.values()];
    const mayTake = !this.worker.draining && now() < this.trustedUntil;
    return {
      sequence: ++this.sequence,
      epoch: this.opened.epoch,
      slots: mayTake ? Math.max(0, this.worker.options.slots - held.length) : 0,
      wait_seconds: this.opened.poll_seconds,
      held: held.map((each) => claim(each.task)),
      reports: held.flatMap((each) => each.report ?? []).slice(0, MOST),
      begin: held.flatMap((each) => (each.granted ? claim(each.task) : [])).slice(0, MOST),
      progress: held.flatMap((each) => each.note ?? []).slice(0, MOST),
    };
  }

  /** @param {any} body */
  async poll(body) {
    const asked = now();
    const path = `/${this.opened.session_id}/poll`;
    const answer = await this.call("POST", path, body, body.wait_seconds + 10);
    if (body.sequence !== this.sequence || this.lost) return; // void
    const { acknowledged = [], begun = [], deliveries = [], cancel = [] } = answer;
    const said = acknowledged.length + begun.length + deliveries.length > 0;
    const idle = !said && answer.epoch === this.opened.epoch && now() - asked < 0.05;
    this.opened.epoch = answer.epoch;
    for (const each of acknowledged) this.held.delete(id(each));
    for (const each of begun) this.held.get(id(each))?.granted?.(each.granted);
    for (const each of cancel) this.held.get(id(each))?.abort.abort(each.reason);
    for (const task of deliveries) {
      if (this.held.has(id(task))) continue;
      const held = { task, abort: new AbortController() };
      this.held.set(id(task), held);
      void this.execute(held);
    }
    if (answer.command === "drain") this.worker.drain();
    if (idle) await sleep(0.1); // it did not wait
  }

  /** @param {Held} held */
  async execute(held) {
    const { task, abort } = held;
    const latest = now() + task.start_within_seconds;
    const mayStart = () =>
      now() < Math.min(latest, this.trustedUntil) && !this.worker.draining && !abort.signal.aborted;
    if (!mayStart() || (task.asks && !(await this.consent(held, latest))) || !mayStart())
      return this.tell(held, { report: { ...claim(task), outcome: "released" } });
    const started_at = new Date().toISOString();
    const cut = new Promise((_, reject) => abort.signal.addEventListener("abort", reject));
    const late = setTimeout(() => abort.abort("timeout"), task.timeout_seconds * 1000);
    const progress = (/** @type {number} */ fraction, /** @type {string=} */ message) =>
      this.tell(held, { note: { ...claim(task), fraction, message } });
    const handler = this.worker.options.handlers[task.task_type];
    let became;
    try {
      const work = (async () => handler(task.payload, { task, signal: abort.signal, progress }))();
      const result = JSON.stringify((await Promise.race([work, cut])) ?? null); // or it throws
      became = { outcome: "succeeded", result: JSON.parse(result) };
    } catch (error) {
      became = failure(error, abort.signal);
    }
    clearTimeout(late);
    const finished_at = new Date().toISOString();
    this.tell(held, { report: { ...claim(task), ...became, started_at, finished_at } });
  }

  /** Ask whether it may begin. @param {Held} held @param {number} latest */
  async consent(held, latest) {
    const granted = new Promise((resolve) => this.tell(held, { granted: resolve }));
    const said = await Promise.race([granted, sleep(Math.max(0, latest - now()))]);
    delete held.granted;
    return said;
  }

  /** With the next poll. @param {Held} held @param {Partial<Held>} what */
  tell(held, what) {
    Object.assign(held, what);
    this.news();
  }

  /** @param {string} method @param {string} path @param {object | undefined} body @param {number} seconds */
  async call(method, path, body, seconds) {
    /** @type {Record<string, string>} */
    const headers = { "Content-Type": "application/json" };
    if (this.worker.options.key) headers.Authorization = `Bearer ${this.worker.options.key}`;
    if (path) headers["gnomon-session-secret"] = this.opened.secret;
    const signal = AbortSignal.timeout(seconds * 1000);
    const answer = await fetch(this.root + path, { method, headers, body: body && JSON.stringify(body), signal });
    const text = await answer.text();
    if (answer.ok) return text ? JSON.parse(text) : {};
    throw Object.assign(new Error(`${answer.status}: ${text.slice(0, 300)}`), { status: answer.status });
  }
}

/** What an execution that did not succeed came to. @param {any} error @param {AbortSignal} signal */
function failure(error, signal) {
  if (signal.aborted && signal.reason === "timeout") return { outcome: "timed_out" };
  if (signal.aborted) return { outcome: "cancelled", error: signal.reason };
  const { retryable, retryAfterSeconds: retry_after_seconds, stack } = Object(error);
  const traceback = stack && String(stack).slice(0, 16000);
  return { outcome: "failed", error: String(error).slice(0, 2000), traceback, retryable, retry_after_seconds };
}
