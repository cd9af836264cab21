"""PgQueuer's side. It follows PgQueuer's own benchmark: several consumers in one process, each on a
connection of its own."""

import asyncio
import json
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import asyncpg
import uvloop
from bench.functions import CallRecorder
from bench.peers.python_program import Offer, Work, command, offer_all, work_until_told
from pgqueuer import (  # type: ignore[import-not-found]
    AsyncpgDriver,
    Job,
    PgQueuer,
    Queries,
)
from pgqueuer.types import QueueExecutionMode  # type: ignore[import-not-found]

ENTRYPOINT = "noop"


async def install(url: str) -> None:
    connection = await asyncpg.connect(url)
    await Queries(AsyncpgDriver(connection)).install()
    await connection.close()


async def work(asked: Work) -> None:
    settings = asked.settings
    connections = [await asyncpg.connect(asked.url) for _ in range(settings["consumers"])]
    # In the mode `drain` what is left in buffers at the end is written at once.
    mode = QueueExecutionMode.drain if asked.until_empty else QueueExecutionMode.continuous

    async def run(recorder: CallRecorder) -> None:
        async def noop(job: Job) -> None:
            recorder.note(json.loads(job.payload)["n"])

        queuers = [PgQueuer(AsyncpgDriver(connection)) for connection in connections]
        for queuer in queuers:
            queuer.entrypoint(ENTRYPOINT)(noop)
            poll = timedelta(milliseconds=settings["least_poll_ms"])
            queuer.qm.min_dequeue_poll_interval = poll
        await asyncio.gather(*(q.run(batch_size=settings["batch"], mode=mode) for q in queuers))

    await work_until_told(asked, run)


async def load(offer: Offer) -> None:
    connections = [await asyncpg.connect(offer.url) for _ in range(offer.connections)]
    queries = [Queries(AsyncpgDriver(connection)) for connection in connections]

    async def enqueue(place: int, numbers: Sequence[int], due: datetime | None) -> None:
        count = len(numbers)
        payloads = [json.dumps({"n": number}).encode() for number in numbers]
        # It takes no moment, but a time from now on; so what is due at one instant is due
        # later by as long as the statement takes to arrive.
        wait = None if due is None else [due - datetime.now(UTC)] * count
        await queries[place].enqueue([ENTRYPOINT] * count, payloads, [0] * count, wait)

    await offer_all(offer, enqueue)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    uvloop.run(command(install, work, load))
