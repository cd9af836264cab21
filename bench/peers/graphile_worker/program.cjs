// graphile-worker's side, set up like the project's own performance test.
"use strict";
const { EventEmitter } = require("node:events");
const { Logger, makeWorkerUtils, run, runMigrations } = require("graphile-worker");
const { Pool } = require("pg");
const { main, offerAll, sayReady } = require("../program.cjs");

const TASK = "noop";
const logger = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});

const install = (url) => runMigrations({ connectionString: url, logger });

async function work({ url, settings }, recorder) {
  const events = new EventEmitter();
  events.once("pool:create", sayReady); // it has connected and looked at its schema by then
  await run({
    events,
    logger,
    noHandleSignals: true,
    taskList: { [TASK]: ({ n }) => recorder.note(n) },
    parsedCronItems: [],
    preset: {
      worker: {
        connectionString: url,
        concurrentJobs: settings.concurrent_jobs,
        maxPoolSize: settings.connections,
        pollInterval: settings.poll_ms,
        localQueue: {
          size: settings.local_queue,
          ...(settings.refetch_delay_ms > 0 && {
            refetchDelay: { durationMs: settings.refetch_delay_ms },
          }),
        },
        completeJobBatchDelay: settings.complete_batch_delay_ms,
        failJobBatchDelay: settings.complete_batch_delay_ms,
      },
    },
  });
}

async function load(offer) {
  const pgPool = new Pool({ connectionString: offer.url, max: offer.connections ?? 1 });
  const utils = await makeWorkerUtils({ pgPool, logger });
  await offerAll(offer, (numbers, due) => {
    const runAt = due ?? undefined;
    return numbers.length === 1
      ? utils.addJob(TASK, { n: numbers[0] }, { runAt })
      : utils.addJobs(numbers.map((n) => ({ identifier: TASK, payload: { n }, runAt })));
  });
}

main({ install, work, load });
