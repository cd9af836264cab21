"""Cron jobs on a clock that the test turns: a whole node, and what its runs say of themselves."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast
from uuid import UUID

import msgspec
from tests.integration.nodes import Receiver, receiver_on
from tests.integration.support import Connection
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.cron.job import Definition, checked
from gnomon.model.targets.target import HttpTarget
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.hints import Announcer
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.testing import turned_clock

PAYLOAD = b'{"job":"{{job_name}}","fire":"{{fire_time}}","run":"{{run_id}}"}'


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


class Ran(NamedTuple):
    """A run, as its call told."""

    job: str
    fire: datetime
    run: UUID
    at: datetime  # by the turned clock


class Turning:
    """The clock of one database, and the jobs in it."""

    def __init__(self, dsn: str, database: Database, receiver: Receiver) -> None:
        self.receiver = receiver
        self._database = database
        self._tasks = PostgresTasks(database, Announcer(dsn, SystemClock(), 1.0), 3600.0)

    async def value(self, statement: str, *args: object) -> Any:
        async with self._database.connection() as connection:
            return await connection.fetchval(statement, *args)

    async def now(self) -> datetime:
        now: datetime = await self.value("SELECT gnomon.now()")
        return now

    async def to(self, moment: datetime) -> None:
        async with self._database.connection() as connection:
            now = await connection.fetchval("SELECT gnomon.now()")
            await turned_clock.turn(cast("Connection", connection), (moment - now).total_seconds())

    async def create(self, definitions: Sequence[Definition]) -> None:
        async with self._tasks.change(DEFAULT_TENANT) as change:
            for each in definitions:
                await change.cron.create(each)

    def job(self, name: str, expression: str, **values: Any) -> Definition:
        return checked(
            Definition(
                name=name,
                task_type="test",
                target=HttpTarget(self.receiver.url),
                cron_expression=expression,
                payload_template=msgspec.Raw(PAYLOAD),
                **values,
            )
        )

    def ran(self, job: str | None = None) -> list[Ran]:
        """The calls, in the order of their arrival."""
        found = []
        for call in self.receiver.calls:
            said = msgspec.json.decode(call.body)
            if job in (None, said["job"]):
                fire = datetime.fromisoformat(said["fire"])
                found.append(Ran(said["job"], fire, UUID(said["run"]), call.at))
        return found

    async def planned(self, until: datetime) -> None:
        """Wait until nothing up to this moment is left to plan."""

        async def entered() -> bool:
            text = "SELECT count(*) FROM gnomon.cron_job WHERE next_fire_at <= $1"
            return bool(await self.value(text, until) == 0)

        await eventually(entered)

    async def quiet(self) -> None:
        """Wait until all that fires before now was planned, and has ended."""

        async def over() -> bool:
            return bool(
                await self.value(
                    """
                    SELECT NOT EXISTS (
                        SELECT FROM gnomon.cron_job WHERE next_fire_at <= gnomon.now()
                    ) AND NOT EXISTS (
                        SELECT FROM gnomon.task
                        WHERE state <> 4 AND (due_at <= gnomon.now() OR state <> 0)
                    )
                    """
                )
            )

        await eventually(over)


@asynccontextmanager
async def turning(dsn: str, database: Database, start: datetime) -> AsyncIterator[Turning]:
    async with database.connection() as connection:
        await turned_clock.install(cast("Connection", connection))

    async def clock() -> datetime:
        return await turned.now()

    async with receiver_on(clock) as receiver:
        turned = Turning(dsn, database, receiver)
        await turned.to(start)
        yield turned
