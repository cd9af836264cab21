"""What a node claims ahead of its slots is given back when they stay busy, and is no failure."""

from functools import partial
from typing import Any

from tests.integration import handlers
from tests.integration.nodes import call_of, running_node
from tests.integration.support import database_now, store
from tests.waiting import eventually

from gnomon.model.outcomes.outcome import SUCCESS
from gnomon.pipe.envelope import Report
from gnomon.pipe.memory import MemoryPipe
from gnomon.store.postgres.database import Database
from gnomon.testing.contracts.pipe import a_delivery

_RUNNING = "SELECT (SELECT count(*) FROM gnomon.task WHERE state = 1)"


async def test_another_node_runs_what_a_busy_one_had_claimed_ahead(
    database_dsn: str, database: Database, connection: Any
) -> None:
    now = await database_now(connection)
    held = [call_of(now, "wait_at_the_gate", timeout_seconds=60) for _ in range(2)]
    behind = [call_of(now, "echo", timeout_seconds=1) for _ in range(6)]
    async with running_node(
        database_dsn,
        node_slots=2,
        node_prefetch=10,
        node_name="busy",
        node_timeout_grace_seconds=4.0,
    ):
        await store(database, *(new for _, new in held))
        for who, _ in held:
            await eventually(partial(_called, who))
        await store(database, *(new for _, new in behind))

        async def claimed_ahead() -> bool:
            return bool(await connection.fetchval(f"{_RUNNING} = 8"))

        await eventually(claimed_ahead)

        async def given_back() -> bool:
            return bool(await connection.fetchval(f"{_RUNNING} = 2"))

        await eventually(given_back)
        # Their timeout and the grace pass without any of them being taken for a failure.
        async with running_node(database_dsn, node_slots=10, node_name="idle"):
            for who, _ in held:
                handlers.gates[who].set()
            for who, _ in behind:
                await eventually(partial(_called, who))
    assert await connection.fetchval("SELECT count(*) FROM gnomon.execution") == 0
    assert await connection.fetchval("SELECT max(attempt) FROM gnomon.task_archive") == 1


async def test_prefetching_stops_while_the_slots_stay_busy_and_comes_back() -> None:
    pipe = MemoryPipe(2, lambda: None, prefetch=3)
    assert pipe.room() == 5
    pipe.send([a_delivery(number) for number in range(5)])
    pipe.pace()
    assert pipe.room() == -3  # nothing was settled: two in the slots, and three too many
    reports = [Report(a_delivery(number), SUCCESS) for number in range(4)]
    for report in reports:
        pipe.report(report)
    pipe.settled(reports)
    assert pipe.room() == 1
    pipe.pace()
    assert pipe.room() == 4  # nobody waits, so there is no reason to hold back


async def _called(who: str) -> bool:
    return len(handlers.calls[who]) > 0
