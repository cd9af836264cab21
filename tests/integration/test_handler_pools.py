"""Nodes with and without handlers: each runs its own, and what nobody handles waits."""

from collections.abc import Sequence
from datetime import datetime

import pytest
from tests.integration.nodes import Receiver, call_of, receiver_on, running_node, webhook
from tests.integration.support import Connection, archived, database_now, live, store
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.model.insight.explanation import explain
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import Submission, TaskKey
from gnomon.store.ports.dispatch import Entry
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.roster import PostgresRoster
from gnomon.store.postgres.hints import DUE_CHANNEL, encode_entries
from gnomon.store.postgres.tasks import reading
from gnomon.wiring.node_inputs import Served

ONLY_WEBHOOKS = Served(handlers=frozenset())


@pytest.fixture
async def now(connection: Connection) -> datetime:
    return await database_now(connection)


async def _clock() -> datetime:
    return SystemClock().now()


def worker_for(*types: str) -> Served:
    return Served(webhooks=False, handlers=frozenset(types))


def calls(now: datetime, count: int, task_type: str, **values: object) -> list[Submission]:
    return [call_of(now, "echo", task_type=task_type, **values)[1] for _ in range(count)]


async def workers(connection: Connection, keys: Sequence[TaskKey]) -> set[str]:
    """Who has run these, once they all have been."""

    async def look() -> list[str] | None:
        rows = [await archived(connection, key) for key in keys]
        return [row["worker"] for row in rows if row is not None] if all(rows) else None

    return set(await eventually(look))


async def untouched(connection: Connection, keys: Sequence[TaskKey]) -> None:
    """Nobody has claimed these, not even to release them."""
    for key in keys:
        row = await live(connection, key)
        assert row is not None
        assert (row["state"], row["attempt"], row["fence"]) == (0, 0, 0)


async def test_each_node_runs_its_own_handlers_and_what_nobody_handles_waits(
    database_dsn: str, database: Database, connection: Connection, now: datetime
) -> None:
    async with (
        receiver_on(_clock) as receiver,
        running_node(database_dsn, node_name="a", served=worker_for("mail", "both")),
        running_node(database_dsn, node_name="b", served=worker_for("report", "both")),
        running_node(database_dsn, node_name="hooks", served=ONLY_WEBHOOKS),
    ):
        nobodys = await store(database, *calls(now, 20, "unknown"))
        hooks = await store(database, *_webhooks(now, 20, receiver))
        mail = await store(database, *calls(now, 20, "mail"))
        report = await store(database, *calls(now, 20, "report"))
        both = await store(database, *calls(now, 60, "both"))
        assert await workers(connection, hooks) == {"hooks"}
        assert await workers(connection, mail) == {"a"}
        assert await workers(connection, report) == {"b"}
        assert await workers(connection, both) == {"a", "b"}, "they share what both handle"
        await untouched(connection, nobodys)
        told = explain(
            await reading.get(database, nobodys[0]),
            await reading.circumstances(database, nobodys[0]),
        )
        assert told.summary == (
            "It is due, but no live worker handles the task type 'unknown'; workers of its tenant "
            "handle: both, mail, report. Start one with `gnomon worker`; if the handler was "
            'renamed, give it aliases=["unknown"].'
        )
        assert {work.task_type for work in await PostgresRoster(database).unserved()} == {"unknown"}
        async with running_node(database_dsn, node_name="late", served=worker_for("unknown")):
            assert await workers(connection, nobodys) == {"late"}
        assert await PostgresRoster(database).unserved() == []


async def test_a_webhook_with_the_task_type_of_a_handler_is_a_webhook(
    database_dsn: str, database: Database, connection: Connection, now: datetime
) -> None:
    async with (
        receiver_on(_clock) as receiver,
        running_node(database_dsn, node_name="worker", served=worker_for("mail")),
        running_node(database_dsn, node_name="hooks", served=ONLY_WEBHOOKS),
    ):
        hooks = await store(database, *_webhooks(now, 30, receiver, task_type="mail"))
        mail = await store(database, *calls(now, 30, "mail"))
        assert await workers(connection, hooks) == {"hooks"}
        assert await workers(connection, mail) == {"worker"}


async def test_targets_are_told_apart_however_they_were_written(
    database_dsn: str, database: Database, connection: Connection, now: datetime
) -> None:
    """Plain SQL may write a target with other spaces, another order, or escapes."""
    keys = await store(database, *calls(now, 4, "mail"))
    for key, target in zip(
        keys,
        (
            '{"type": "python", "function": "echo"}',
            '{"function":"echo","type":"python"}',
            ' {"t\\u0079pe":"p\\u0079thon","function":"echo"}',
            '{"type":"python","function":"echo"}',
        ),
        strict=True,
    ):
        await connection.execute("UPDATE gnomon.task SET target = $1 WHERE id = $2", target, key.id)
    assert await connection.fetchval(
        "SELECT bool_and(gnomon.is_by_handler(target)) FROM gnomon.task"
    )
    async with running_node(database_dsn, node_name="hooks", served=ONLY_WEBHOOKS):
        probes = await store(database, *calls(now, 2, "probe"))
        async with running_node(database_dsn, node_name="worker", served=worker_for("mail")):
            assert await workers(connection, keys) == {"worker"}
        await untouched(connection, probes)


async def test_what_cannot_be_read_becomes_a_dead_letter_also_among_workers(
    database_dsn: str, database: Database, connection: Connection, now: datetime
) -> None:
    (key,) = await store(database, *calls(now, 1, "mail"))
    await connection.execute("UPDATE gnomon.task SET target = '[1]' WHERE id = $1", key.id)
    async with (
        running_node(database_dsn, served=worker_for("mail")),
        running_node(database_dsn, served=ONLY_WEBHOOKS),
    ):

        async def is_dead() -> bool:
            row = await live(connection, key)
            return row is not None and row["state"] == 4

        await eventually(is_dead)


async def test_hints_start_a_handler_at_once_and_wake_nobody_else(
    database_dsn: str, database: Database, connection: Connection, now: datetime
) -> None:
    """The scan is far off: only hints and the looks that they ask for can find anything."""
    slow = {"node_scan_seconds": 30.0, "node_steal_seconds": 30.0}
    async with (
        running_node(database_dsn, node_name="hooks", served=ONLY_WEBHOOKS, **slow),
        running_node(database_dsn, node_name="worker", served=worker_for("mail"), **slow),
    ):
        for _ in range(3):
            keys = await _hinted(database, *calls(now, 5, "mail"))
            assert await workers(connection, keys) == {"worker"}
            foreign = await _hinted(database, *calls(now, 5, "other"))
            await untouched(connection, foreign)


async def _hinted(database: Database, *submissions: Submission) -> list[TaskKey]:
    keys = await store(database, *submissions)
    async with database.connection() as connection:
        flows = await connection.fetch(
            "SELECT tenant_id, id, due_at, flow FROM gnomon.task WHERE id = ANY ($1)",
            [key.id for key in keys],
        )
        text = encode_entries(
            [
                Entry(TaskKey(t, i), due, Lane.MEDIUM, flow=flow, by_handler=True)
                for t, i, due, flow in flows
            ]
        )
        await connection.execute("SELECT pg_notify($1, $2)", DUE_CHANNEL, text)
    return keys


def _webhooks(now: datetime, count: int, receiver: Receiver, **values: object) -> list[Submission]:
    return [webhook(now, receiver, **values) for _ in range(count)]
