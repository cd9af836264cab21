// The worker for Node of a campaign: the example, with handlers that write down their calls.
import { openSync, writeSync, mkdirSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";

const { GnomonWorker } = await import(pathToFileURL(process.argv[2]).href);
const folder = process.env.GNOMON_PROOF_FOLDER;
const book = openSync(`${folder}/calls-${process.pid}.jsonl`, "a");
const now = () => Date.now() / 1000;

async function function_({ n, seconds, fails }, { task, signal }) {
  const { task_id: run_id, attempt, fence } = task;
  const call = { n, run_id, attempt, fence, began_at: now(), node: process.env.GNOMON_NODE_NAME };
  const note = (more = {}) => writeSync(book, JSON.stringify({ ...call, ...more }) + "\n");
  note();
  let succeeded = false;
  try {
    await sleep(seconds * 1000, undefined, { signal });
    failIfAsked(n, fails);
    succeeded = true;
  } finally {
    note({ ended_at: now(), succeeded, hung_up: signal.aborted });
  }
}

// Fail the first tries, whichever workers make them: each leaves a file behind.
function failIfAsked(n, fails) {
  mkdirSync(`${folder}/tries`, { recursive: true });
  for (let number = 0; number < fails; number++) {
    try {
      openSync(`${folder}/tries/${n}.${number}`, "wx");
    } catch (error) {
      if (error.code === "EEXIST") continue;
      throw error;
    }
    throw new Error(`try ${number + 1} of ${fails} that fail`);
  }
}

const worker = new GnomonWorker({
  url: process.env.GNOMON_URL,
  name: process.env.GNOMON_NODE_NAME,
  slots: Number(process.env.GNOMON_NODE_SLOTS),
  handlers: { function: function_, thread: function_ },
});
process.on("SIGTERM", () => worker.drain());
await worker.run();
