import { readFile } from "node:fs/promises";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { GnomonWorker } from "./gnomon-worker.mjs";

const worker = new GnomonWorker({
  url: process.env.GNOMON_URL ?? "http://127.0.0.1:8080",
  key: process.env.GNOMON_API_KEY,
  name: `${hostname()}:${process.pid}`,
  slots: Number(process.env.SLOTS ?? 50),
  handlers: {
    // A value is the task's result; an error fails it, and it is tried again by its retry policy.
    "js.greet": async ({ name }) => `hello ${name}`,
    "js.fail": async ({ reason }) => {
      throw Object.assign(new Error(reason), { retryable: false });
    },
    "js.odd": () => 1n, // is no JSON
    // Long work looks at `signal`, and says how far it is.
    "js.count": async ({ seconds }, { signal, progress }) => {
      for (let second = 0; second < seconds; second++) {
        progress(second / seconds, `${second} of ${seconds} s`);
        await sleep(1000, undefined, { signal });
      }
      return seconds;
    },
    "js.size": async ({ path }) => (await readFile(path)).length,
  },
});
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => worker.drain());
await worker.run();
