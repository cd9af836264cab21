// What the programs of the Node peers share: the same as python_program.py, which says what for.
"use strict";
const fs = require("node:fs");

// Date.now() is cut to milliseconds, which would make calls look early. So its step is timed.
const origin = Math.max(
  ...Array.from({ length: 5 }, () => {
    const before = Date.now();
    while (Date.now() === before);
    const step = performance.now();
    return Date.now() - step;
  }),
);
const now = () => (origin + performance.now()) / 1000;

class Recorder {
  constructor(file) {
    this.file = file;
    this.calls = new Float64Array(1 << 12);
    this.used = 0;
  }

  note(number) {
    if (this.used === 0) setTimeout(() => this.flush(), 250);
    if (this.used === this.calls.length) {
      const larger = new Float64Array(this.used * 2);
      larger.set(this.calls);
      this.calls = larger;
    }
    this.calls[this.used++] = number;
    this.calls[this.used++] = now();
  }

  flush() {
    if (this.used === 0) return;
    fs.appendFileSync(this.file, Buffer.from(this.calls.buffer, 0, this.used * 8));
    this.used = 0;
  }
}

async function offerAll(offer, enqueue) {
  const { tasks = 1, connections = 1, pause = 0 } = offer;
  const dueAt = offer.due_in == null ? null : Math.floor(now() + offer.due_in) + 0.125;
  const due = dueAt === null ? null : new Date(dueAt * 1000);
  const moments = [];
  let left = offer.requests ?? Infinity;
  let number = offer.first;
  const began = now();
  const endsAt = offer.seconds == null ? Infinity : began + offer.seconds;

  async function keepBusy() {
    while (left > 0 && now() < endsAt) {
      left -= 1;
      const first = number;
      number += tasks;
      const numbers = Array.from({ length: tasks }, (_, place) => first + place);
      const sent = now();
      await enqueue(numbers, due);
      moments.push([sent, now()]);
      if (pause) {
        await new Promise((done) => setTimeout(done, pause * 1000 * (0.5 + Math.random())));
      }
    }
  }

  await Promise.all(Array.from({ length: connections }, keepBusy));
  const loaded = {
    accepted: moments.length * tasks,
    began,
    ended: moments.reduce((latest, [, answered]) => Math.max(latest, answered), began),
    due_at: dueAt,
    moments: pause ? moments : [],
  };
  process.stdout.write(JSON.stringify(loaded) + "\n");
}

function sayReady() {
  process.stdout.write(JSON.stringify({ ready_at: now() }) + "\n");
}

function main({ install, work, load }) {
  const verb = process.argv[2];
  const asked = JSON.parse(process.argv[3]);
  let doing;
  if (verb === "work") {
    const recorder = new Recorder(asked.records);
    process.on("SIGTERM", () => {
      recorder.flush();
      process.exit(0);
    });
    doing = work(asked, recorder);
  } else if (verb === "load") {
    doing = load(asked).then(() => process.exit(0));
  } else {
    doing = install(asked.url).then(() => process.exit(0));
  }
  doing.catch((error) => {
    console.error(error);
    process.exit(1);
  });
}

module.exports = { main, offerAll, sayReady };
