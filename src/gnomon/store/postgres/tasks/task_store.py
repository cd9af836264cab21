"""The store of tasks as the API sees it, on PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from gnomon.model.errors import (
    IdempotencyConflict,
    QuotaExceeded,
    StatementRefused,
    StoreError,
    StoreUnavailable,
)
from gnomon.model.fleet.tenant import Quotas
from gnomon.model.insight.circumstances import Circumstances, OpenBreaker
from gnomon.model.tasks.execution import Execution
from gnomon.model.tasks.related import RelatedTask
from gnomon.model.tasks.task import Submission, Task, TaskKey
from gnomon.store.ports.dispatch import Entry
from gnomon.store.ports.insight.stats import DueFlows, TaskStats
from gnomon.store.ports.work.tasks import (
    ListedExecutions,
    ListedTransitions,
    NewerPage,
    NewTask,
    Once,
    Page,
    QuotaUse,
    Receipt,
    TaskFilter,
    TaskLabels,
)
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.hints import Hints
from gnomon.store.postgres.limits.limit_keys import LimitersOf, limited, no_limiters
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.tasks import admitting, counting, idempotency, reading
from gnomon.store.postgres.tasks.admitting import Asked, QuotasOf, no_quotas
from gnomon.store.postgres.tasks.changing import PostgresTaskChange
from gnomon.store.postgres.tasks.dead_letters import PostgresDeadLetters
from gnomon.store.postgres.tasks.inserting import fresh, insert_once, insert_within

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

_INTEGRITY = "23"  # the class of SQLSTATEs
OnInserted = Callable[[Sequence[Submission]], None]


def _is_alone(new: NewTask) -> bool:
    """Whether nothing has to be written beside the task."""
    task = new.submission
    return new.once is None and task.retry_of is None and task.batch_id is None


def unheard(submissions: Sequence[Submission]) -> None:
    """For where nobody counts what was inserted."""


class PostgresTasks:
    """Stores tasks for the API: inserts, changes and reads them."""

    def __init__(
        self,
        database: Database,
        hints: Hints,
        idempotency_seconds: float,
        quotas_of: QuotasOf = no_quotas,
        limiters_of: LimitersOf = no_limiters,
        on_inserted: OnInserted = unheard,
    ) -> None:
        self._database = database
        self._hints = hints
        self._keep_seconds = idempotency_seconds
        self._quotas_of = quotas_of
        self._limiters_of = limiters_of
        self._on_inserted = on_inserted
        self.dead_letters = PostgresDeadLetters(database)
        self._pinging = asyncio.Lock()
        self._pings = 0  # that have begun,
        self._pinged: tuple[int, StoreError | None] = (0, None)  # and the last that ended, and how

    async def insert(self, batch: Sequence[NewTask], *, patient: bool = True) -> list[Receipt]:
        """Store tasks of any tenants in one commit; a conflict or a quota fails only its own
        entry. Who is `patient` waits for seconds where others hold something up, and not for a
        moment only. Raises IdempotencyPending, and TenantBusy where one tenant is held up."""
        with _refusals():
            receipts, entries = await self._insert(self._limited(batch), patient)
        self._hints.due(entries)
        self._on_inserted(fresh(batch, receipts))
        return receipts

    def _limited(self, batch: Sequence[NewTask]) -> Sequence[NewTask]:
        tenants = {new.submission.tenant_id for new in batch}
        limiters = {tenant: self._limiters_of(tenant) for tenant in tenants}
        if not any(limiters.values()):
            return batch
        return [limited(new, limiters[new.submission.tenant_id]) for new in batch]

    async def _insert(
        self, batch: Sequence[NewTask], patient: bool
    ) -> tuple[list[Receipt], list[Entry]]:
        def ask(submissions: Sequence[Submission]) -> Asked:
            return admitting.asked(submissions, self._quotas_of, patient=patient)

        if all(_is_alone(new) for new in batch):
            submissions = [new.submission for new in batch]
            # One statement is one transaction and one round trip.
            async with self._database.connection() as connection:
                return await insert_within(connection, submissions, ask(submissions))
        async with self._database.transaction() as connection:
            await _wait_at_most(
                connection, idempotency.ALONE_SECONDS if patient else idempotency.TOGETHER_SECONDS
            )
            return await insert_once(connection, batch, self._keep_seconds, ask)

    @asynccontextmanager
    async def change(
        self, tenant_id: str, once: Once | None = None
    ) -> AsyncIterator[PostgresTaskChange]:
        """Begin a transaction. With a key that is in use it waits for the first request."""
        quotas = self._quotas_of(tenant_id)
        try:
            with _refusals():
                async with self._database.scoped(
                    tenant_id, idempotency.ALONE_SECONDS
                ) as connection:
                    used = None if once is None else await self._claim(connection, tenant_id, once)
                    change = PostgresTaskChange(
                        connection,
                        tenant_id,
                        quotas,
                        self._limiters_of(tenant_id),
                        self._keep_seconds,
                        replay=used,
                    )
                    yield change
                    if once is not None and used is None:
                        await idempotency.answer(connection, tenant_id, once.key, change.answer)
        except QuotaExceeded as error:
            if error.over.quota == "scheduled_tasks":
                await self._remember_room(tenant_id, quotas)
            raise
        self._hints.due(change.due)
        if change.inserted:
            self._on_inserted(change.inserted)
        for key in change.cancels:
            self._hints.cancel(key)
        if change.workflows.steps or change.batches.steps:
            self._hints.steps()

    async def _remember_room(self, tenant_id: str, quotas: Quotas) -> None:
        with suppress(StoreUnavailable):
            async with self._database.scoped(tenant_id) as connection:
                await admitting.remember_room(connection, tenant_id, quotas)

    async def _claim(self, connection: "Connection", tenant_id: str, once: Once) -> bytes | None:
        """Take the key; gives the first answer where it was used before."""
        wanted = idempotency.Wanted(tenant_id, once, None, idempotency.UNANSWERED)
        (used,) = await idempotency.claim(connection, [wanted], self._keep_seconds)
        if used is None:
            return None
        if used.fingerprint != once.fingerprint:
            raise IdempotencyConflict(once.key)
        return used.answer

    async def answered(self, tenant_id: str, requests: Sequence[Once]) -> Mapping[Once, bytes]:
        """The first answers to those of the requests that were made before."""
        async with self._database.scoped(tenant_id) as connection:
            return await idempotency.answered(connection, tenant_id, requests)

    async def get(self, key: TaskKey) -> Task:
        """Read one, wherever it is, in one snapshot. Raises TaskNotFound."""
        return await reading.get(self._database, key)

    async def unended(self, keys: Sequence[TaskKey]) -> set[TaskKey]:
        """Those of the tasks, of any tenants, that have not ended: one probe of a key each."""
        return await reading.unended(self._database, keys)

    async def executions(
        self, key: TaskKey, outcome: str | None = None, cursor: int | None = None, limit: int = 50
    ) -> ListedExecutions:
        """The executions after `cursor`, oldest first. Raises TaskNotFound."""
        return await reading.executions(self._database, key, outcome, cursor, limit)

    async def transitions(self, key: TaskKey, cursor: int | None, limit: int) -> ListedTransitions:
        """The transitions after `cursor`, oldest first, also of a task that was deleted. Raises
        TaskNotFound."""
        return await reading.transitions(self._database, key, cursor, limit)

    async def last_executions(self, key: TaskKey, limit: int) -> list[Execution]:
        """The last executions of a task, oldest first; none where there is no such task."""
        return await reading.last_executions(self._database, key, limit)

    async def circumstances(self, key: TaskKey) -> Circumstances:
        """The facts beside a task: the nodes, and the queue before it."""
        return await reading.circumstances(self._database, key)

    async def related(
        self, key: TaskKey, original: UUID | None, cron_job_id: UUID | None, execute_at: datetime
    ) -> Sequence[RelatedTask]:
        """The task that it repeats, the runs of its cron job right before and after it, and the
        newest tasks that repeat it."""
        return await reading.related(self._database, key, original, cron_job_id, execute_at)

    async def list(
        self, tenant_id: str, chosen: TaskFilter, cursor: UUID | None, limit: int
    ) -> Page:
        """Tasks older than `cursor`, live and finished, newest first."""
        return await reading.page(self._database, tenant_id, chosen, cursor, limit)

    async def list_newer(
        self, tenant_id: str, chosen: TaskFilter, cursor: UUID, limit: int
    ) -> NewerPage:
        """The tasks that are just newer than `cursor`, live and finished, newest first."""
        return await reading.newer_page(self._database, tenant_id, chosen, cursor, limit)

    async def labels(self, tenant_id: str) -> TaskLabels:
        """What the newest tasks are called."""
        return await reading.labels(self._database, tenant_id)

    async def list_dead(
        self, tenant_id: str, chosen: TaskFilter, cursor: UUID | None, limit: int
    ) -> Page:
        """Dead letters that are not resolved."""
        return await reading.page_of_dead(self._database, tenant_id, chosen, cursor, limit)

    async def stats(self, tenant_id: str, chosen: TaskFilter) -> TaskStats:
        """Counts of tasks, each with a bound."""
        return await counting.stats(self._database, tenant_id, chosen)

    async def due_flows(self, tenant_id: str) -> DueFlows:
        """What waits, by what could hold it up; each count with a bound."""
        return await counting.due_flows(self._database, tenant_id)

    async def open_breakers(self, tenant_id: str) -> Sequence[OpenBreaker]:
        """Those of all nodes that are not dead."""
        return await reading.open_breakers(self._database, tenant_id)

    async def use(self, tenant_id: str) -> QuotaUse:
        """The current use of a tenant's quotas."""
        quotas = self._quotas_of(tenant_id)
        async with self._database.scoped(tenant_id) as connection:
            row = await connection.fetchrow(
                query("use"),
                tenant_id,
                quotas.scheduled_tasks is not None,
                quotas.submissions_per_second is not None,
                quotas.cron_jobs is not None,
                quotas.stored_bytes is not None,
            )
        assert row is not None, "it is one row"
        return QuotaUse(**row)

    async def ping(self) -> None:
        """Raises StoreUnavailable where nothing could be stored now."""
        # Anybody may ask without a key: all who do meanwhile share one question, or they would take
        # the connections that work needs.
        asked = self._pings
        async with self._pinging:
            if self._pinged[0] <= asked:
                self._pings = number = self._pings + 1
                self._pinged = number, await self._ping()
            failure = self._pinged[1]
        if failure is not None:
            raise failure.with_traceback(None)

    async def _ping(self) -> StoreError | None:
        """A standby, or a server that is shutting down, answers but could store nothing."""
        try:
            row = await self._database.fetchrow("ping")
        except StoreError as error:
            return error
        if row is None or row["standby"]:
            return StoreUnavailable("PostgreSQL only reads here: it is a standby")
        return None


async def _wait_at_most(connection: "Connection", seconds: float) -> None:
    """For locks: of keys that others are using, and of tasks that others are changing."""
    await connection.execute(f"SET LOCAL lock_timeout = {round(seconds * 1000)}")


@contextmanager
def _refusals() -> Iterator[None]:
    """What another request has just taken, or removed, may be free or there again."""
    try:
        yield
    except StatementRefused as error:
        if error.sqlstate is None or not error.sqlstate.startswith(_INTEGRITY):
            raise
        raise StoreUnavailable(f"PostgreSQL cannot do this now: {error}", error.sqlstate) from error
