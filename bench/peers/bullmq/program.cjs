// BullMQ's side.
"use strict";
const { Queue, Worker } = require("bullmq");
const Redis = require("ioredis");
const { main, offerAll, sayReady } = require("../program.cjs");

const QUEUE = "bench";
const TASK = "noop";

const connection = (url) => new Redis(url, { maxRetriesPerRequest: null });

async function install() {} // it needs no schema

async function work({ url, settings }, recorder) {
  const connected = connection(url);
  await connected.ping();
  sayReady();
  const worker = new Worker(QUEUE, async (job) => recorder.note(job.data.n), {
    connection: connected,
    concurrency: settings.concurrency,
    removeOnComplete: { count: 0 },
  });
  worker.on("error", (error) => console.error(error));
}

async function load(offer) {
  const queue = new Queue(QUEUE, { connection: connection(offer.url) });
  await queue.waitUntilReady();
  await offerAll(offer, (numbers, due) => {
    const timestamp = Date.now(); // a delay counts from here
    const opts = due === null ? {} : { timestamp, delay: due.getTime() - timestamp };
    return numbers.length === 1
      ? queue.add(TASK, { n: numbers[0] }, opts)
      : queue.addBulk(numbers.map((n) => ({ name: TASK, data: { n }, opts })));
  });
}

main({ install, work, load });
