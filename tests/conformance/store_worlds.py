"""The PostgreSQL store as the contract suites ask for it."""

from datetime import datetime
from typing import Any
from uuid import UUID

from tests.integration.cron_support import Unheard
from tests.integration.support import Connection

from gnomon.clock import SystemClock
from gnomon.cron.job import CronJob, CronRun, Definition
from gnomon.model.tasks.execution import Execution
from gnomon.model.tasks.task import DEFAULT_TENANT, Submission, Task, TaskKey
from gnomon.store.ports.work.cron import CronRunFilter
from gnomon.store.ports.work.tasks import NewTask
from gnomon.store.postgres.cron.jobs import PostgresCronJobs
from gnomon.store.postgres.cron.planning_store import PostgresPlanning
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.dispatch.roster import PostgresRoster
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.testing import turned_clock
from gnomon.testing.contracts.store_world import GRACE


class PostgresWorld:
    """`DispatchWorld` and `PlanningWorld` on one database."""

    def __init__(self, database: Database, connection: Connection) -> None:
        self.roster = PostgresRoster(database)
        self.dispatch = PostgresDispatch(database, GRACE)
        self.planning = PostgresPlanning(database, SystemClock(), GRACE)
        self._tasks = PostgresTasks(database, Unheard(), 60.0)
        self._jobs = PostgresCronJobs(database)
        self._connection: Any = connection

    async def now(self) -> datetime:
        now: datetime = await self._connection.fetchval("SELECT gnomon.now()")
        return now

    async def turn(self, seconds: float) -> None:
        await turned_clock.turn(self._connection, seconds)

    async def submit(self, *submissions: Submission) -> None:
        await self._tasks.insert([NewTask(each) for each in submissions])

    async def cancel(self, key: TaskKey) -> None:
        async with self._tasks.change(key.tenant_id) as change:
            await change.cancel(key.id, interrupt=True)

    async def task(self, key: TaskKey) -> Task:
        return await self._tasks.get(key)

    async def executions(self, key: TaskKey) -> list[Execution]:
        return (await self._tasks.executions(key)).executions

    async def create(self, definition: Definition) -> CronJob:
        async with self._tasks.change(DEFAULT_TENANT) as change:
            return await change.cron.create(definition)

    async def trigger(self, job_id: UUID) -> None:
        async with self._tasks.change(DEFAULT_TENANT) as change:
            await change.cron.trigger(str(job_id))

    async def job(self, job_id: UUID) -> CronJob:
        return await self._jobs.get(DEFAULT_TENANT, str(job_id))

    async def runs(self, job_id: UUID) -> list[CronRun]:
        page = await self._jobs.runs(DEFAULT_TENANT, str(job_id), CronRunFilter(), None, 1000)
        return page.runs
