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
    eventually,
    freeze_server,
    judge,
    start_server,
    stop_server,
    submitting,
    thaw_server,
)

from gnomon.store.embedded import EmbeddedServer

pytestmark = pytest.mark.system

TASKS = 1000


class Stopped:
    """PostgreSQL is down, and comes up again."""

    def begin(self, server: EmbeddedServer) -> None:
        stop_server(server, signal.SIGQUIT)

    def end(self, server: EmbeddedServer) -> None:
        start_server(server)


class Frozen:
    """PostgreSQL does not answer, and goes on after a while."""

    def begin(self, server: EmbeddedServer) -> None:
        freeze_server(server)

    def end(self, server: EmbeddedServer) -> None:
        thaw_server(server)


@pytest.mark.parametrize("outage", [Stopped(), Frozen()], ids=["stopped", "frozen"])
async def test_an_outage_kills_nobody_and_repeats_nothing(
    own_server: EmbeddedServer,
    processes: list[Process],
    receiver: Receiver,
    tmp_path: Path,
    outage: Stopped | Frozen,
) -> None:
    nodes = [
        Process(own_server.dsn, tmp_path, name, "scheduler", node_slots=TASKS)
        for name in ("first", "second")
    ]
    processes += nodes
    for node in nodes:
        node.start()
    for node in nodes:
        await node.started()
    truth = Truth(own_server.dsn)
    try:
        await _through_an_outage(own_server, nodes, receiver, truth, outage)
        await _works_again(own_server, receiver, truth)
    finally:
        truth.close()
    assert all(node.alive for node in nodes)


async def _through_an_outage(
    server: EmbeddedServer,
    nodes: list[Process],
    receiver: Receiver,
    truth: Truth,
    outage: Stopped | Frozen,
) -> None:
    lives = await truth.living()
    assert len(lives) == 2
    receiver.hold()
    async with submitting(server.dsn) as submitter:
        ids = await submitter.submit(receiver.url, TASKS)

    async def all_run() -> bool:
        return len(receiver.calls) == TASKS

    await eventually(all_run)
    outage.begin(server)
    began = time.monotonic()
    receiver.answer()  # the outcomes have to wait for the database

    async def three_leases_are_over() -> bool:
        return time.monotonic() - began >= 3 * LEASE

    try:
        await eventually(three_leases_are_over)
    finally:
        await asyncio.to_thread(outage.end, server)
    assert all(node.said("the lease could not be renewed") for node in nodes)
    ended = time.monotonic()
    await eventually(lambda: truth.completed(ids))
    print(f"settled {time.monotonic() - ended:.1f} s after PostgreSQL was back")

    # A wrong judgement would come a lease after the end of the outage; a lease is five beats.
    beats = "SELECT min(beat) FROM gnomon.node"
    first_beat = await truth.value(beats)

    async def a_lease_is_over() -> bool:
        return bool(await truth.value(beats) >= first_beat + 7)

    await eventually(a_lease_is_over)
    rows = await truth.fetch("SELECT incarnation, name, dead FROM gnomon.node")
    assert {(row["incarnation"], row["name"]) for row in rows} == set(lives.items())
    assert not any(row["dead"] for row in rows)
    assert await judge(truth, ids, receiver) == (set(), set(), set(), set(), set())
    assert await truth.value("SELECT count(*) FROM gnomon.execution") == 0


async def _works_again(server: EmbeddedServer, receiver: Receiver, truth: Truth) -> None:
    async with submitting(server.dsn) as submitter:
        more = await submitter.submit(receiver.url, 100)
    await eventually(lambda: truth.completed(more))
    assert await judge(truth, more, receiver) == (set(), set(), set(), set(), set())


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
        await eventually(lambda: truth.completed(ids), timeout=20)
    assert await judge(truth, ids, receiver) == (set(), set(), set(), set(), set())
