"""What the tests of recurring jobs share."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

from tests.integration.support import Connection

from gnomon.clock import SystemClock
from gnomon.cron.job import CronJob, Definition
from gnomon.cron.plan import plan
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.task import DEFAULT_TENANT, TaskKey
from gnomon.store.ports.dispatch import Entry
from gnomon.store.postgres.cron.changing import PostgresCronChange
from gnomon.store.postgres.cron.jobs import PostgresCronJobs
from gnomon.store.postgres.cron.planning_store import PostgresPlanning
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.tasks.task_store import PostgresTasks

ALL_SHARDS = list(range(256))


def definition(name: str = "job", **values: Any) -> Definition:
    """A job that fires every second, unless told otherwise."""
    fields: dict[str, Any] = {
        "name": name,
        "task_type": "test",
        "target": PythonTarget("echo"),
    }
    if "interval_seconds" not in values:
        fields["cron_expression"] = "* * * * * *"
    return Definition(**(fields | values))


class Unheard:
    """Hints that nobody hears: what is told is kept."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def due(self, entries: Iterable[Entry]) -> None:
        self.entries += entries

    def cancel(self, key: TaskKey) -> None: ...
    def steps(self) -> None: ...


@asynccontextmanager
async def changing(database: Database) -> AsyncIterator[PostgresCronChange]:
    async with PostgresTasks(database, Unheard(), 60.0).change(DEFAULT_TENANT) as change:
        yield change.cron


async def created(database: Database, **values: Any) -> CronJob:
    async with changing(database) as change:
        return await change.create(definition(**values))


async def job_named(database: Database, name: str = "job") -> CronJob:
    return await PostgresCronJobs(database).get(DEFAULT_TENANT, name)


def planning(database: Database) -> PostgresPlanning:
    return PostgresPlanning(database, SystemClock(), 10.0)


async def planned(database: Database, job: CronJob, ahead: float = 10.0) -> list[Entry]:
    """Plan a job as a node would."""
    async with database.connection() as connection:
        now: datetime = await connection.fetchval("SELECT gnomon.now()")
    return await planning(database).advance([plan(job, now, now + timedelta(seconds=ahead))])


async def ledger(connection: Connection, job: CronJob) -> list[Any]:
    return list(
        await connection.fetch(
            "SELECT * FROM gnomon.occurrence WHERE cron_job_id = $1 ORDER BY fire_at", job.id
        )
    )


async def runs_of(connection: Connection, job: CronJob) -> list[Any]:
    """The live runs, in the order of their fires."""
    return list(
        await connection.fetch(
            "SELECT * FROM gnomon.task WHERE cron_job_id = $1 ORDER BY fire_at", job.id
        )
    )


async def make_due(connection: Connection, job: CronJob, count: int = 1) -> list[TaskKey]:
    """Let the time of the first waiting runs have come; gives them."""
    rows = await connection.fetch(
        """
        UPDATE gnomon.task SET due_at = (SELECT gnomon.now()) - interval '1 ms'
        WHERE id IN (
            SELECT id FROM gnomon.task
            WHERE cron_job_id = $1 AND attempt = 0 AND state = 0
            ORDER BY fire_at LIMIT $2
        ) RETURNING tenant_id, id, fire_at
        """,
        job.id,
        count,
    )
    return [
        TaskKey(row["tenant_id"], row["id"]) for row in sorted(rows, key=lambda r: r["fire_at"])
    ]
