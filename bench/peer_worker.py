"""PgQueuer's side of the comparison. Runs in the peer's own environment, without Gnomon.

It follows PgQueuer's own benchmark: several consumers in one process, each on a connection of its
own, in drain mode. How many consumers and which batch size are best differs between machines, so a
few are tried on a small queue first, and the best one drains the measured one.

Arguments: DSN, number of jobs, number of jobs in each trial (0: no trials). Prints JSON.
"""

import asyncio
import itertools
import json
import logging
import sys
import time
from importlib.metadata import version

import asyncpg
import uvloop
from pgqueuer import (  # type: ignore[import-not-found]
    AsyncpgDriver,
    Job,
    PgQueuer,
    Queries,
)
from pgqueuer.types import QueueExecutionMode  # type: ignore[import-not-found]

ENTRYPOINT = "noop"
ENQUEUE_BATCH = 1000
# (consumers, batch size); the first one is used where there are no trials.
CHOICES = ((2, 500), (1, 250), (1, 1000), (2, 100), (3, 250), (5, 10), (5, 100))


async def main(dsn: str, jobs: int, trial_jobs: int) -> dict[str, object]:
    connection = await asyncpg.connect(dsn)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    best = CHOICES[0]
    if trial_jobs:
        trials = {}
        for choice in CHOICES:
            await _enqueue(queries, trial_jobs)
            trials[choice] = await _drain(dsn, trial_jobs, *choice)
        best = min(trials, key=lambda choice: trials[choice])
        await connection.execute("TRUNCATE pgqueuer, pgqueuer_log")
    enqueued = await _enqueue(queries, jobs)
    await connection.execute("VACUUM ANALYZE")
    await connection.execute("CHECKPOINT")
    drained = await _drain(dsn, jobs, *best)
    left = await connection.fetchval("SELECT count(*) FROM pgqueuer")
    done = await connection.fetchval(
        "SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'"
    )
    await connection.close()
    return {
        "version": version("pgqueuer"),
        "consumers": best[0],
        "batch": best[1],
        "enqueue_seconds": enqueued,
        "drain_seconds": drained,
        "left": left,
        "done": done,
    }


async def _enqueue(queries: Queries, jobs: int) -> float:
    started = time.perf_counter()
    for first in range(0, jobs, ENQUEUE_BATCH):
        count = min(ENQUEUE_BATCH, jobs - first)
        await queries.enqueue([ENTRYPOINT] * count, [b'{"n": 1}'] * count, [0] * count)
    return time.perf_counter() - started


async def _drain(dsn: str, jobs: int, consumers: int, batch: int) -> float:
    """Seconds until the last job is settled. Shutting down takes PgQueuer a while longer, which is
    not counted."""
    connections = [await asyncpg.connect(dsn) for _ in range(consumers)]
    queuers = [PgQueuer(AsyncpgDriver(connection)) for connection in connections]
    called, calls = asyncio.Event(), itertools.count(1)

    async def noop(_: Job) -> None:
        if next(calls) == jobs:
            called.set()

    for queuer in queuers:
        queuer.entrypoint(ENTRYPOINT)(noop)
    watching = await asyncpg.connect(dsn)
    started = time.perf_counter()
    runs = [q.run(batch_size=batch, mode=QueueExecutionMode.drain) for q in queuers]
    settled = asyncio.create_task(_settled(watching, called, started))
    await asyncio.gather(settled, *runs)
    for connection in [watching, *connections]:
        await connection.close()
    return settled.result()


async def _settled(
    connection: "asyncpg.Connection[asyncpg.Record]", called: asyncio.Event, started: float
) -> float:
    await called.wait()
    while await connection.fetchval("SELECT EXISTS (SELECT FROM pgqueuer)"):
        await asyncio.sleep(0.005)
    return time.perf_counter() - started


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    print(json.dumps(uvloop.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))))
