"""Whatever some clients do with their connections, the others are answered."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.integration.identity import make_key
from tests.integration.support import blocked_by
from tests.system.crowd import (
    SUBMISSION,
    Crowd,
    ended,
    files,
    head,
    read,
    request,
    soft_file_limit,
    watched,
)
from tests.system.harness import Process
from tests.waiting import eventually

from gnomon.access.api_key import RANDOM_BYTES, key_from
from gnomon.api.http.bounds.refusals import AT_ONCE_SECONDS, REFUSALS_A_SECOND
from gnomon.clock import new_secret
from gnomon.store.postgres.database import Database

if TYPE_CHECKING:
    import asyncpg

pytestmark = pytest.mark.system

HEALTH = request("GET", "/healthz")
TASKS = "/api/v1/tasks"
BATCH = f"{TASKS}/batch"
MIB = 1024 * 1024
# Three large bodies fill what there is for them. As by default, but of less: it takes less time.
LARGE = 7 * MIB
SMALLER = {"api_max_batch_bytes": 8 * MIB, "api_body_memory_bytes": 32 * MIB}
KEYS_WAIT = """
    CREATE FUNCTION wait_for_the_test() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET lock_timeout = 0 AS
    $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END $$;
    CREATE TRIGGER wait_for_the_test BEFORE INSERT ON gnomon.idempotency
    FOR EACH STATEMENT EXECUTE FUNCTION wait_for_the_test();
"""


class Served(Crowd):
    """The clients of one API process."""

    def __init__(self, url: str, process: Process) -> None:
        super().__init__(url)
        self.process = process

    @property
    def memory(self) -> int:
        """What the process holds now, in bytes."""
        pages = Path(f"/proc/{self.process.process.pid}/statm").read_text().split()[1]
        return int(pages) * 4096


Serve = Callable[..., AbstractAsyncContextManager[Served]]


@pytest.fixture
def serve(database_dsn: str, tmp_path: Path, processes: list[Process]) -> Serve:
    @asynccontextmanager
    async def start(**settings: object) -> AsyncIterator[Served]:
        process = Process(database_dsn, tmp_path, "api", "api", "--port", "0", **settings)
        processes.append(process)
        process.start()
        served = Served(await process.started(), process)
        try:
            yield served
            assert process.alive, process.text()[-4000:]
        finally:
            served.close()

    return start


async def test_thousands_of_idle_connections_keep_nobody_out(serve: Serve) -> None:
    with files(5_000):
        with soft_file_limit(1024):  # as most systems set it; the process raises it by itself
            starting = serve(api_idle_seconds=600)
            served = await starting.__aenter__()
        async with watched(served):
            silent = await served.open(4_000)
            kept = await served.open(500, HEALTH)
            assert {(await read(stream[0])).status for stream in kept} == {200}
            await served.open(500, HEALTH[:20])  # half a request
        assert not any(stream[0].at_eof() for stream in silent), "none of them had to go"
        await starting.__aexit__(None, None, None)


async def test_where_all_places_are_taken_the_longest_idle_make_room(
    serve: Serve, connection: "asyncpg.Connection[Any]"
) -> None:
    async with serve(api_connections=200, api_idle_seconds=600) as served:
        # One request is under way all the while: PostgreSQL keeps it waiting.
        await connection.execute("BEGIN; LOCK TABLE gnomon.cron_job IN ACCESS EXCLUSIVE MODE")
        (busy,) = await served.open(1, request("GET", "/api/v1/cron-jobs"))

        async def waits() -> bool:
            return bool(await blocked_by(connection))

        await eventually(waits)
        async with watched(served):
            for _ in range(10):
                await served.open(100)
        await connection.execute("ROLLBACK")
        assert (await read(busy[0])).status == 200
        left = [stream for stream in served.streams if not stream[0].at_eof()]
        assert 100 < len(left) <= 200


async def test_whoever_sends_no_request_is_closed(serve: Serve) -> None:
    async with serve(api_idle_seconds=1) as served:
        (silent,) = await served.open(1)
        (half,) = await served.open(1, HEALTH[:20])
        (kept,) = await served.open(1, HEALTH)
        assert (await read(kept[0])).status == 200
        for stream in (silent, half, kept):
            assert b"200" not in await ended(stream)


async def test_whoever_does_not_read_the_answer_is_closed(serve: Serve) -> None:
    async with serve(api_idle_seconds=1, api_connections=200) as served:
        reader, writer = (await served.open(1))[0]
        asked = request("GET", "/api/v1/openapi.json")
        transport: Any = writer.transport
        transport.pause_reading()
        writer.write(asked * 200)  # far more than both sockets hold

        async def gone() -> bool:
            writer.write(asked)
            return transport.is_closing() or reader.exception() is not None

        await eventually(gone, timeout=60.0)


async def test_half_sent_bodies_keep_nobody_out_and_are_closed(serve: Serve) -> None:
    async with serve(api_body_seconds=2) as served, watched(served):
        half = head("POST", TASKS, len(SUBMISSION)) + SUBMISSION[:20]
        stuck = await served.open(500, half)
        (dribbling,) = await served.open(1, half)
        answers = asyncio.gather(*(read(stream[0]) for stream in stuck))
        dribbled = asyncio.ensure_future(read(dribbling[0]))
        while not dribbled.done():
            dribbling[1].write(SUBMISSION[:1])
            await asyncio.sleep(0.5)
        for answer in [*await answers, await dribbled]:
            assert answer.status == 408
            assert b"within 2 s" in answer.body
        for stream in stuck:
            assert await ended(stream) == b""


async def test_bodies_that_are_held_take_no_more_memory_than_they_may(serve: Serve) -> None:
    async with serve(api_body_seconds=3, **SMALLER) as served, watched(served):
        before = served.memory
        held = await served.open(20, head("POST", BATCH, LARGE))
        for stream in held:
            stream[1].write(b" " * (LARGE - 1))
        answers = await asyncio.gather(*(read(stream[0]) for stream in held))
        assert {answer.status for answer in answers} <= {408, 503}
        taken = served.process.peak_memory() - before
        # Besides the bodies, whatever a process takes for its first requests.
        assert taken < SMALLER["api_body_memory_bytes"] + 32 * MIB, f"{taken / MIB:.0f} MiB"
        # All of it was given back.
        whole = request("POST", BATCH, b" " * LARGE)
        again = await asyncio.gather(*(served.ask(whole) for _ in range(3)))
        assert {answer.status for answer in again} == {400}


async def test_where_bodies_leave_no_room_small_ones_are_taken_and_large_ones_told_to_wait(
    serve: Serve, connection: "asyncpg.Connection[Any]"
) -> None:
    tasks = msgspec.json.encode({"tasks": [msgspec.Raw(SUBMISSION)]}).ljust(LARGE)
    async with serve(api_body_seconds=1, **SMALLER) as served, watched(served):
        # Whoever uses a key waits, however long. For a lock of the table itself they would not:
        # after some seconds they are told to come again (409).
        await connection.execute(KEYS_WAIT)
        await connection.execute("SELECT pg_advisory_lock(1)")
        numbered = [request("POST", BATCH, tasks, **{"Idempotency-Key": str(n)}) for n in range(3)]
        stored = [asyncio.ensure_future(served.ask(each)) for each in numbered]

        async def all_wait() -> bool:
            return len(await blocked_by(connection)) == 3

        await eventually(all_wait)
        refused = await served.ask(request("POST", BATCH, tasks))
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert msgspec.json.decode(refused.body)["type"] == "urn:gnomon:problem:busy"
        assert len(await blocked_by(connection)) == 3
        await connection.execute("SELECT pg_advisory_unlock(1)")
        assert {answer.status for answer in await asyncio.gather(*stored)} == {202}
        assert (await served.ask(request("POST", BATCH, tasks))).status == 202


async def test_a_flood_of_wrong_keys_keeps_nobody_out(serve: Serve, database: Database) -> None:
    _, key = await make_key(database)
    flooding, refused, seconds = 150, 0, 2.0
    async with serve(auth_enabled="true") as served:

        async def flood() -> None:
            nonlocal refused
            ((reader, writer),) = await served.open(1)
            while True:
                made_up = key_from(new_secret(RANDOM_BYTES))
                asked = request("POST", TASKS, SUBMISSION, Authorization=f"Bearer {made_up}")
                writer.write(asked)
                assert (await read(reader)).status == 401
                refused += 1

        async with watched(served, Authorization=f"Bearer {key}") as good:
            started = time.monotonic()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
                    for _ in range(flooding):
                        group.create_task(flood())
            took = time.monotonic() - started
        assert good.rounds > 2
        # As fast as they come, they would be thousands a second.
        assert refused <= REFUSALS_A_SECOND * (AT_ONCE_SECONDS + took) + flooding
