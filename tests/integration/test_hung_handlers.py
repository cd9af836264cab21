"""Nodes whose handlers ignore being told to stop: capacity is kept, tasks are settled once."""

import urllib.request
from collections.abc import Awaitable, Callable
from datetime import datetime

import pytest
from tests.integration import handlers
from tests.integration.nodes import call_of, running_node
from tests.integration.support import (
    Connection,
    archived,
    database_now,
    executions,
    key_of,
    live,
    store,
    tries,
)
from tests.waiting import eventually

from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import Submission
from gnomon.store.postgres.database import Database

NO_RETRY = RetryPolicy(max_retries=0)
ONE_RETRY = RetryPolicy(max_retries=1, base_seconds=0.0)


@pytest.fixture
async def now(connection: Connection) -> datetime:
    return await database_now(connection)


def ended(connection: Connection, new: Submission) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        row = await live(connection, key_of(new))
        return row is None or row["state"] == State.DEAD

    return look


async def metric(port: int, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    (line,) = (line for line in lines if line.startswith(name))
    return float(line.split()[-1])


async def test_two_hung_handlers_leave_two_slots(
    database_dsn: str,
    database: Database,
    connection: Connection,
    now: datetime,
    unused_tcp_port: int,
) -> None:
    hung = [
        call_of(now, "ignore_being_told_to_stop", timeout_seconds=0.1, retry_policy=NO_RETRY)
        for _ in range(2)
    ]
    async with running_node(
        database_dsn,
        node_slots=2,
        node_prefetch=0,
        node_timeout_grace_seconds=2.0,
        output_metrics_port=unused_tcp_port,
    ):
        await store(database, *(new for _, new in hung))
        for _, new in hung:
            await eventually(ended(connection, new))
            (tried,) = await executions(connection, key_of(new))
            assert tried["outcome"] == OutcomeKind.TIMED_OUT
            assert tried["error"] == "did not end within 0.1 s; it ignored its cancellation"
        gauge = 'gnomon_handlers_hung{runs_in="loop"}'
        assert await metric(unused_tcp_port, gauge) == 2
        # Each of these two needs a slot while the other has one.
        waiting = [call_of(now, "wait_at_the_gate") for _ in range(2)]
        await store(database, *(new for _, new in waiting))
        for who, _ in waiting:

            async def called(who: str = who) -> bool:
                return bool(handlers.calls[who])

            await eventually(called)
        before = [dict(await live(connection, key_of(new)) or {}) for _, new in hung]
        for who, _ in [*hung, *waiting]:
            handlers.gates[who].set()
        for _, new in waiting:
            await eventually(ended(connection, new))

        async def all_returned() -> bool:
            return await metric(unused_tcp_port, gauge) == 0

        await eventually(all_returned)
        assert await metric(unused_tcp_port, 'gnomon_handlers_given_up_total{runs_in="loop"}') == 2
    # What they returned in the end has changed nothing.
    for (_, new), row in zip(hung, before, strict=True):
        assert dict(await live(connection, key_of(new)) or {}) == row
        assert row["state"] == State.DEAD
        assert len(await executions(connection, key_of(new))) == 1


async def test_a_hung_handler_is_tried_again_while_it_still_runs(
    database_dsn: str, database: Database, connection: Connection, now: datetime
) -> None:
    """And its late return spoils neither the second try nor what the node holds."""
    who, new = call_of(
        now, "ignore_being_told_to_stop", timeout_seconds=0.1, retry_policy=ONE_RETRY
    )
    async with running_node(
        database_dsn, node_slots=1, node_prefetch=0, node_timeout_grace_seconds=1.0
    ):
        await store(database, new)
        await eventually(ended(connection, new))
        before = await archived(connection, key_of(new))
        assert before is not None
        assert (before["state"], before["result"]) == (State.COMPLETED, '"again"')
        handlers.gates[who].set()
        after = call_of(now, "echo")[1]
        await store(database, after)
        await eventually(ended(connection, after))
    assert await archived(connection, key_of(new)) == before
    tried = [t["outcome"] for t in await tries(connection, key_of(new))]
    assert tried == [OutcomeKind.TIMED_OUT, OutcomeKind.SUCCEEDED]


async def test_an_interrupted_handler_that_goes_on_leaves_its_task_cancelled(
    database_dsn: str, database: Database, connection: Connection, now: datetime
) -> None:
    who, new = call_of(now, "ignore_being_told_to_stop", timeout_seconds=60)
    async with running_node(database_dsn, node_timeout_grace_seconds=1.0):
        await store(database, new)

        async def called() -> bool:
            return bool(handlers.calls[who])

        await eventually(called)
        await connection.execute("UPDATE gnomon.task SET cancel_requested = true")
        await eventually(ended(connection, new))
        handlers.gates[who].set()
    row = await archived(connection, key_of(new))
    assert row is not None
    assert row["state"] == State.CANCELLED
    (tried,) = await tries(connection, key_of(new))
    assert tried["error"] == "cancelled; it ignored its cancellation"


async def test_hung_threads_starve_no_other_function(
    database_dsn: str,
    database: Database,
    connection: Connection,
    now: datetime,
    unused_tcp_port: int,
) -> None:
    hung = [
        call_of(now, "block_a_thread", timeout_seconds=0.2, retry_policy=NO_RETRY) for _ in range(6)
    ]
    async with running_node(database_dsn, targets_threads=2, output_metrics_port=unused_tcp_port):
        await store(database, *(new for _, new in hung))
        for _, new in hung:
            await eventually(ended(connection, new))
        after = [call_of(now, "echo_in_a_thread")[1] for _ in range(4)]
        await store(database, *after)
        for new in after:
            await eventually(ended(connection, new))
            row = await archived(connection, key_of(new))
            assert row is not None
            assert row["state"] == State.COMPLETED
        assert await metric(unused_tcp_port, 'gnomon_handlers_hung{runs_in="thread"}') >= 2
        for who, _ in hung:
            handlers.gates[who].set()
    for who, new in hung:
        (tried,) = await executions(connection, key_of(new))
        assert tried["outcome"] == OutcomeKind.TIMED_OUT
        if handlers.calls[who]:
            assert "it goes on in its thread" in tried["error"]
