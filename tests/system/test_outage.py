"""PostgreSQL away for three leases, under running tasks; and PostgreSQL that keeps one waiting."""

import asyncio
import signal
import time
from pathlib import Path

import asyncpg
import pytest
from tests.system.conftest import NewProcess
from tests.system.harness import (
    LEASE,
    Process,
    Receiver,
    Truth,
    judge,
    start_server,
    stop_server,
    submitting,
)
from tests.waiting import eventually

from gnomon.store.embedded import EmbeddedServer

pytestmark = pytest.mark.system

TASKS = 1000


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["fast", "immediate"])
async def test_an_outage_kills_nobody_and_repeats_nothing(
    own_server: EmbeddedServer,
    processes: list[Process],
    receiver: Receiver,
    tmp_path: Path,
    how: signal.Signals,
) -> None:
    nodes = [
        Process(own_server.dsn, tmp_path, name, "scheduler", slots=TASKS)
        for name in ("first", "second")
    ]
    processes += nodes
    for node in nodes:
        node.start()
    truth = Truth(own_server.dsn)
    try:
        await _outage(own_server, nodes, receiver, truth, how)
    finally:
        truth.close()


async def _outage(
    server: EmbeddedServer,
    nodes: list[Process],
    receiver: Receiver,
    truth: Truth,
    how: signal.Signals,
) -> None:
    for node in nodes:
        await node.started()
    lives = await truth.living()
    assert len(lives) == 2
    receiver.hold()
    async with submitting(server.dsn) as submitter:
        ids = await submitter.submit(receiver.url, TASKS)

    async def all_run() -> bool:
        return len(receiver.calls) == TASKS

    await eventually(all_run)
    stop_server(server, how)
    stopped_at = time.monotonic()
    receiver.answer()  # the outcomes have to wait for the database

    async def three_leases_are_over() -> bool:
        return time.monotonic() - stopped_at >= 3 * LEASE

    await eventually(three_leases_are_over)
    assert all(node.said("outcomes wait for PostgreSQL") for node in nodes)
    await asyncio.to_thread(start_server, server)
    started_at = time.monotonic()
    await eventually(lambda: truth.completed(ids))
    print(f"settled {time.monotonic() - started_at:.1f} s after PostgreSQL was back")

    # A wrong judgement would come a lease after the end of the outage.
    beats = "SELECT min(beat) FROM gnomon.node"
    first_beat = await truth.value(beats)

    async def two_leases_renewed() -> bool:
        return bool(await truth.value(beats) >= first_beat + 10)

    await eventually(two_leases_renewed)
    rows = await truth.fetch("SELECT incarnation, name, dead FROM gnomon.node")
    assert {(row["incarnation"], row["name"]) for row in rows} == set(lives.items())
    assert not any(row["dead"] for row in rows)
    assert await judge(truth, ids, receiver) == (set(), set(), set(), set(), set())
    assert await truth.value("SELECT count(*) FROM gnomon.execution") == 0

    receiver.calls.clear()
    async with submitting(server.dsn) as submitter:
        more = await submitter.submit(receiver.url, 100)
    await eventually(lambda: truth.completed(more))
    assert await judge(truth, more, receiver) == (set(), set(), set(), set(), set())
    assert all(node.alive for node in nodes)


async def test_a_submission_that_had_to_wait_is_found_without_its_hint(
    new_node: NewProcess, database_dsn: str, receiver: Receiver, truth: Truth
) -> None:
    """It is stored later than it was due, behind what the node has read by then."""
    node = new_node("node")
    await node.started()
    locks = "SELECT count(*) FROM pg_locks WHERE relation = 'gnomon.task'::regclass AND NOT granted"
    async with submitting(database_dsn, hints=False) as submitter, asyncio.TaskGroup() as group:
        connection = await asyncpg.connect(database_dsn)
        async with connection.transaction():
            await connection.execute("LOCK TABLE gnomon.task IN SHARE ROW EXCLUSIVE MODE")
            submission = group.create_task(submitter.submit(receiver.url, 20))
            locked_at = time.monotonic()

            async def waited() -> bool:
                return await truth.value(locks) > 0 and time.monotonic() - locked_at > 4

            await eventually(waited)
        await connection.close()
        ids = await submission
        # The rare pass over everything would find them, too, but later than this.
        await eventually(lambda: truth.completed(ids), timeout=10)
    assert await judge(truth, ids, receiver) == (set(), set(), set(), set(), set())
