// pg-boss's side: several workers in one process, each takes a batch at a time.
"use strict";
const { PgBoss } = require("pg-boss");
const { main, offerAll, sayReady } = require("../program.cjs");

const QUEUE = "bench";

async function started(url, options) {
  const boss = new PgBoss({ connectionString: url, ...options });
  boss.on("error", (error) => console.error(error));
  await boss.start();
  return boss;
}

async function install(url) {
  const boss = await started(url, { supervise: false, schedule: false });
  await boss.createQueue(QUEUE, { notify: true });
  await boss.stop();
}

async function work({ url, settings }, recorder) {
  const boss = await started(url, {
    max: settings.connections,
    schedule: false,
    useListenNotify: true,
  });
  sayReady();
  const options = {
    batchSize: settings.batch,
    localConcurrency: settings.workers,
    pollingIntervalSeconds: settings.poll_ms / 1000,
    notifyPollingIntervalSeconds: settings.poll_ms / 1000,
    burstWhenBatchFull: true,
  };
  await boss.work(QUEUE, options, async (jobs) => {
    for (const job of jobs) recorder.note(job.data.n);
  });
}

async function load(offer) {
  const boss = await started(offer.url, {
    max: offer.connections ?? 1,
    supervise: false,
    schedule: false,
  });
  await offerAll(offer, (numbers, due) => {
    const when = due === null ? {} : { startAfter: due };
    return numbers.length === 1
      ? boss.send(QUEUE, { n: numbers[0] }, when)
      : boss.insert(
          QUEUE,
          numbers.map((n) => ({ data: { n }, ...when })),
        );
  });
}

main({ install, work, load });
