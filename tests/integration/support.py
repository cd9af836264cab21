"""What the tests of the node's side share: tasks to store, and ways to look at them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg
from tests.waiting import eventually

from gnomon.clock import new_id, new_incarnation
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import COMPLETE, Verdict
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import DEFAULT_TENANT, Submission, TaskKey
from gnomon.pipe.envelope import Delivery
from gnomon.store.ports.dispatch import Settlement
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.roster import PostgresRoster
from gnomon.store.postgres.tasks import inserting

Connection: TypeAlias = "asyncpg.Connection[Any]"

TARGET = PythonTarget("nothing")


async def database_now(connection: Connection) -> datetime:
    now: datetime = await connection.fetchval("SELECT gnomon.now()")
    return now


def submission(now: datetime, due_in: float = -1.0, **values: Any) -> Submission:
    """A task that is due since a second, unless told otherwise."""
    due = now + timedelta(seconds=due_in)
    fields: dict[str, Any] = {
        "tenant_id": DEFAULT_TENANT,
        "id": new_id(now),
        "task_type": "test",
        "target": TARGET,
        "execute_at": due,
        "due_at": due,
    }
    return Submission(**(fields | values))


def key_of(new: Submission) -> TaskKey:
    return TaskKey(new.tenant_id, new.id)


async def store(database: Database, *submissions: Submission) -> list[TaskKey]:
    async with database.transaction() as connection:
        await inserting.insert(connection, submissions)
    return [key_of(s) for s in submissions]


async def joined(database: Database, name: str = "node") -> UUID:
    """A node that is alive."""
    incarnation = new_incarnation()
    await PostgresRoster(database).join(incarnation, name, 10, 60.0)
    return incarnation


def settlement(
    delivery: Delivery,
    verdict: Verdict = COMPLETE,
    outcome: OutcomeKind | None = OutcomeKind.SUCCEEDED,
    **values: Any,
) -> Settlement:
    return Settlement(
        key=delivery.key,
        fence=delivery.fence,
        incarnation=delivery.incarnation,
        verdict=verdict,
        outcome=outcome,
        **values,
    )


async def live(connection: Connection, key: TaskKey) -> asyncpg.Record | None:
    """The row of a task that is still to happen, or dead."""
    return await connection.fetchrow(
        "SELECT * FROM gnomon.task WHERE tenant_id = $1 AND id = $2", key.tenant_id, key.id
    )


async def archived(connection: Connection, key: TaskKey) -> asyncpg.Record | None:
    """The row of a task that is over."""
    return await connection.fetchrow(
        "SELECT * FROM gnomon.task_archive WHERE tenant_id = $1 AND id = $2", key.tenant_id, key.id
    )


async def end_of(connection: Connection, key: TaskKey) -> asyncpg.Record:
    """The archive row or the dead letter of a task, once there is one."""

    async def look() -> asyncpg.Record | None:
        row = await archived(connection, key) or await live(connection, key)
        return row if row is not None and row["state"] >= State.DEAD else None

    row = await eventually(look)
    assert row is not None
    return row


async def executions(connection: Connection, key: TaskKey) -> Sequence[asyncpg.Record]:
    """The tries that did not succeed, oldest first."""
    rows: Sequence[asyncpg.Record] = await connection.fetch(
        "SELECT * FROM gnomon.execution WHERE tenant_id = $1 AND task_id = $2 ORDER BY fence",
        key.tenant_id,
        key.id,
    )
    return rows


async def tries(connection: Connection, key: TaskKey) -> Sequence[asyncpg.Record]:
    """All tries, oldest first."""
    rows: Sequence[asyncpg.Record] = await connection.fetch(
        "SELECT * FROM gnomon.all_executions WHERE tenant_id = $1 AND task_id = $2 ORDER BY fence",
        key.tenant_id,
        key.id,
    )
    return rows


async def blocked_by(connection: Connection) -> list[int]:
    """The sessions that wait for a lock that this one holds."""
    rows = await connection.fetch(
        """
        SELECT DISTINCT pid FROM pg_locks
        WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))
        """
    )
    return [row["pid"] for row in rows]
