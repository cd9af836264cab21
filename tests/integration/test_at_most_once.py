"""A whole node on tasks that have one call and no other, whatever comes of it."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from tests.integration import handlers
from tests.integration.cron_support import Unheard
from tests.integration.nodes import (
    Receiver,
    RunningNode,
    answers,
    call_of,
    receiver_on,
    running_node,
    webhook,
)
from tests.integration.support import Connection, database_now, executions, key_of, live, store
from tests.waiting import eventually

from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import DEFAULT_TENANT, DeliveryMode, Submission, TaskKey
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.tasks.task_store import PostgresTasks

ONCE: dict[str, Any] = {
    "delivery": DeliveryMode.AT_MOST_ONCE,
    "retry_policy": RetryPolicy(max_retries=0),
}


@pytest.fixture
async def node(database_dsn: str) -> AsyncIterator[RunningNode]:
    async with running_node(database_dsn) as running:
        yield running


@pytest.fixture
async def receiver(database: Database) -> AsyncIterator[Receiver]:
    async def clock() -> Any:
        async with database.connection() as connection:
            return await connection.fetchval("SELECT clock_timestamp()")

    async with receiver_on(clock) as opened:
        yield opened


async def dead(connection: Connection, key: TaskKey) -> asyncpg.Record:
    async def look() -> asyncpg.Record | None:
        row = await live(connection, key)
        return row if row is not None and row["state"] == State.DEAD else None

    row = await eventually(look)
    assert row is not None
    return row


async def stored(database: Database, new: Submission) -> TaskKey:
    await store(database, new)
    return key_of(new)


async def test_a_failure_is_a_dead_letter_after_one_call(
    node: RunningNode, database: Database, connection: Connection, receiver: Receiver
) -> None:
    receiver.answer = answers(503)
    key = await stored(database, webhook(await database_now(connection), receiver, **ONCE))
    row = await dead(connection, key)
    assert (row["attempt"], row["losses"], len(receiver.calls)) == (1, 0, 1)
    assert "503" in row["last_error"]
    (tried,) = await executions(connection, key)
    assert (tried["outcome"], tried["response_status"]) == (OutcomeKind.FAILED, 503)


@pytest.mark.parametrize(
    ("function", "outcome"),
    [("snooze_once", OutcomeKind.SNOOZED), ("wait_at_the_gate", OutcomeKind.TIMED_OUT)],
)
async def test_neither_a_snooze_nor_a_timeout_leads_to_a_second_call(
    function: str, outcome: OutcomeKind, node: RunningNode, database: Database, connection: Any
) -> None:
    now = await database_now(connection)
    who, new = call_of(now, function, timeout_seconds=0.2, **ONCE)
    key = await stored(database, new)
    await dead(connection, key)
    (tried,) = await executions(connection, key)
    assert tried["outcome"] == outcome
    assert tried["error"] is not None  # nobody should have to guess why it is a dead letter
    assert len(handlers.calls[who]) == 1


async def test_a_success_is_one_like_any_other(
    node: RunningNode, database: Database, connection: Connection, receiver: Receiver
) -> None:
    key = await stored(database, webhook(await database_now(connection), receiver, **ONCE))

    async def over() -> bool:
        return await live(connection, key) is None

    await eventually(over)
    assert len(receiver.calls) == 1
    assert await executions(connection, key) == []


async def test_only_a_person_has_it_called_again(
    node: RunningNode, database: Database, connection: Connection, receiver: Receiver
) -> None:
    receiver.answer = answers(500, 200)
    key = await stored(database, webhook(await database_now(connection), receiver, **ONCE))
    await dead(connection, key)
    async with PostgresTasks(database, Unheard(), 60.0).change(DEFAULT_TENANT) as change:
        await change.redrive(key.id)

    async def over() -> bool:
        return await live(connection, key) is None

    await eventually(over)
    fences = [int(call.headers["gnomon-fence"]) for call in receiver.calls]
    assert len(fences) == 2
    assert fences[0] < fences[1]


async def test_exactly_once_is_tried_again_with_a_higher_fence_and_the_same_id(
    node: RunningNode, database: Database, connection: Connection, receiver: Receiver
) -> None:
    receiver.answer = answers(500, 503, 200)
    policy = RetryPolicy(max_retries=3, base_seconds=0.0)
    now = await database_now(connection)
    new = webhook(now, receiver, delivery=DeliveryMode.EXACTLY_ONCE, retry_policy=policy)
    key = await stored(database, new)

    async def over() -> bool:
        return await live(connection, key) is None

    await eventually(over)
    fences = [int(call.headers["gnomon-fence"]) for call in receiver.calls]
    assert len(fences) == 3
    assert fences == sorted(set(fences))
    assert {call.headers["webhook-id"] for call in receiver.calls} == {str(key.id)}


async def test_what_a_node_had_not_begun_when_it_stopped_is_begun_by_the_next(
    database_dsn: str, database: Database, connection: Connection
) -> None:
    """Prefetched tasks are given back as if they had never been claimed."""
    now = await database_now(connection)
    calls = [call_of(now, "wait_at_the_gate", **ONCE) for _ in range(6)]
    async with running_node(database_dsn, node_slots=2, node_prefetch=4) as first:
        await store(database, *(new for _, new in calls))

        async def two_of_six() -> bool:
            row = await connection.fetchrow(
                "SELECT count(*) FILTER (WHERE begun), count(*) FROM gnomon.task WHERE state = 1"
            )
            return row is not None and tuple(row) == (2, 6)

        await eventually(two_of_six)
        first.begin_to_stop()
        for who, _ in calls:
            handlers.gates[who].set()
        await first.stop()
    async with running_node(database_dsn):

        async def none_left() -> bool:
            return not await connection.fetchval("SELECT count(*) FROM gnomon.task")

        await eventually(none_left)
    assert [len(handlers.calls[who]) for who, _ in calls] == [1] * 6
