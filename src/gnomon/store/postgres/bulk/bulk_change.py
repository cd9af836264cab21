"""What a transaction does to many tasks at once, and to the row of the operation."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg
import msgspec

from gnomon.model.bulk_errors import BulkOperationNotFound, TooManyBulkOperations
from gnomon.model.errors import QuotaExceeded
from gnomon.model.fleet.tenant import Quotas
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import Resolution, TaskKey
from gnomon.store.ports.dispatch import Entry
from gnomon.store.ports.insight.stats import MOST_COUNTED, CappedCount
from gnomon.store.ports.work.bulk import (
    CHUNK_EXAMINED,
    LIVE_STATES,
    MOST_EXAMINED,
    MOST_KEPT,
    MOST_OPEN,
    BulkMatches,
    BulkOperation,
    BulkScope,
    BulkStatus,
    BulkWork,
)
from gnomon.store.ports.work.tasks import HIGHEST_ID, LOWEST_ID
from gnomon.store.postgres.levels.watching import has_level, watch
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.retention.expired_rows import BY_INDEX
from gnomon.store.postgres.rows import is_early, lane_of
from gnomon.store.postgres.statuses import status_columns
from gnomon.store.postgres.tasks import admitting
from gnomon.store.postgres.tasks.reading import filter_columns

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Connection

_STATEMENT_SECONDS = 10.0
_work = msgspec.json.Decoder(BulkWork)
_reasons = msgspec.json.Decoder(dict[str, int])


class PostgresBulkChange:
    """The part of a tenant's transaction that is about bulk operations."""

    def __init__(
        self,
        connection: "Connection",
        tenant_id: str,
        quotas: Quotas,
        due: list[Entry],
        cancels: list[TaskKey],
    ) -> None:
        self._connection = connection
        self._tenant_id = tenant_id
        self._quotas = quotas
        self._due = due
        self._cancels = cancels

    async def by_index(self) -> None:
        """One plan, whatever is known of the tables; and an end, whatever they hold."""
        seconds = round(_STATEMENT_SECONDS * 1000)
        await self._connection.execute(f"{BY_INDEX}; SET LOCAL statement_timeout = {seconds}")

    # Which tasks

    async def newest(self) -> UUID:
        """The id that all present tasks are older than."""
        found: UUID | None = await self._connection.fetchval(query("bulk_newest"), self._tenant_id)
        if found is None or found == HIGHEST_ID:
            return found or LOWEST_ID
        return UUID(int=found.int + 1)

    async def count(self, work: BulkWork, before: UUID) -> tuple[CappedCount, list[UUID]]:
        """How many match, with a bound; and the first of them."""
        found = await self._find(work, before, MOST_COUNTED + 1, MOST_EXAMINED, None)
        count = CappedCount().plus(len(found.ids), more=found.stopped_at is not None)
        return count, found.ids[:MOST_COUNTED]

    async def next_matches(self, operation: BulkOperation, most: int) -> BulkMatches:
        """The next tasks of an operation."""
        work = operation.work
        until = operation.started_at if work.by_state else None
        return await self._find(work, operation.position, most, CHUNK_EXAMINED, until)

    async def _find(
        self, work: BulkWork, before: UUID, most: int, window: int, until: datetime | None
    ) -> BulkMatches:
        chosen, scope = work.chosen, work.scope
        states, due, tried = status_columns(chosen.status)
        if scope is BulkScope.DEAD:
            states, due, tried = None, None, None
        elif states is None and scope is BulkScope.LIVE:
            states = list(LIVE_STATES)
        rows = await self._connection.fetch(
            query(scope),
            self._tenant_id,
            before if chosen.ids is None else min(before, _after(chosen.ids[1])),
            most,
            window,
            states,
            due,
            tried,
            *filter_columns(chosen),
            chosen.error,
            until,
            *((chosen.fingerprint,) if scope is BulkScope.DEAD else ()),
        )
        ids = [row["id"] for row in rows if row["id"] is not None]
        stopped = next((row["stopped_at"] for row in rows if row["id"] is None), None)
        if len(ids) == most:
            stopped = ids[-1]
        if chosen.ids is not None:  # a second bound in the statement would change its plan
            lowest = chosen.ids[0]
            ids = [each for each in ids if each >= lowest]
            stopped = stopped if stopped is not None and stopped > lowest else None
        return BulkMatches(ids, stopped)

    async def hold(self, ids: Sequence[UUID]) -> dict[UUID, asyncpg.Record]:
        """The live ones of them, locked until the end of the transaction. Those that were claimed
        ahead of their time are taken back from their nodes."""
        asked = query("bulk_hold"), self._tenant_id, ids
        rows = await self._connection.fetch(*asked)
        early = [r["id"] for r in rows if is_early(r)]
        if early:
            await self._connection.execute(query("take_back"), self._tenant_id, early)
            rows = await self._connection.fetch(*asked)
        return {row["id"]: row for row in rows}

    async def finished(self, ids: Sequence[UUID]) -> dict[UUID, asyncpg.Record]:
        """The finished ones of them."""
        if not ids:
            return {}
        rows = await self._connection.fetch(
            query("bulk_finished"), self._tenant_id, ids, min(ids), max(ids)
        )
        return {row["id"]: row for row in rows}

    # What is done to them: all are held by this transaction

    async def redrive(self, held: Sequence[asyncpg.Record]) -> tuple[int, str | None]:
        """Run dead letters again, as many as the quotas allow; gives how many, and which quota has
        refused the others."""
        counted = [row for row in held if row["cron_job_id"] is None]
        uncounted = [row for row in held if row["cron_job_id"] is not None]
        refusal: str | None = None
        try:
            await admitting.check_stored(self._connection, self._tenant_id, self._quotas)
            room = 0
            if counted:
                room = await admitting.take_room(
                    self._connection, self._tenant_id, self._quotas, len(counted), whole=False
                )
        except QuotaExceeded as error:
            room, refusal = 0, error.over.quota
            if refusal == "stored_bytes":
                uncounted = []
        if room < len(counted):
            refusal = refusal or "scheduled_tasks"
        chosen = [*counted[:room], *uncounted]
        await self._wait(chosen, "bulk_redrive")
        return len(chosen), refusal

    async def rolled_back(self, held: Sequence[asyncpg.Record]) -> frozenset[UUID]:
        """The dead letters among them whose run is rolled back: nobody tries them again."""
        ids = [row["id"] for row in held if row["workflow_run_id"] is not None]
        if not ids:
            return frozenset()
        rows = await self._connection.fetch(query("rolled_back_among"), self._tenant_id, ids)
        return frozenset(row["task_id"] for row in rows)

    async def hasten(self, held: Sequence[asyncpg.Record]) -> None:
        """Let retries start now."""
        await self._wait(held, "bulk_hasten")

    async def reschedule(self, held: Sequence[asyncpg.Record], at: datetime) -> None:
        """Move tasks to another time."""
        await self._wait(held, "bulk_reschedule", at)

    async def _wait(self, held: Sequence[asyncpg.Record], statement: str, *more: object) -> None:
        """Make tasks wait for another time, and tell the nodes of those that were not held back."""
        if not held:
            return
        ids = [row["id"] for row in held]
        moved = await self._connection.fetch(query(statement), self._tenant_id, ids, *more)
        if levelled := [row["id"] for row in held if has_level(row)]:
            await watch(self._connection, self._tenant_id, levelled)
        due = {row["id"]: row["due_at"] for row in moved}
        self._due += [
            Entry(
                TaskKey(self._tenant_id, row["id"]),
                due[row["id"]],
                lane_of(row["lane"]),
                flow=row["flow"],
                by_handler=row["by_handler"],
            )
            for row in held
            if row["state"] in (State.WAITING, State.DEAD)
        ]

    async def interrupt(self, ids: Sequence[UUID]) -> None:
        """Ask for the cancelling of running tasks."""
        if ids:
            await self._connection.fetch(query("bulk_interrupt"), self._tenant_id, ids)
            self._cancels += [TaskKey(self._tenant_id, each) for each in ids]

    async def cancel(self, ids: Sequence[UUID]) -> None:
        """Archive tasks as cancelled."""
        await self._finish(ids, State.CANCELLED)

    async def resolve(
        self, ids: Sequence[UUID], resolution: Resolution, by: str | None, note: str | None
    ) -> None:
        """Archive dead letters as resolved."""
        await self._finish(ids, State.RESOLVED, resolution, by, note)

    async def _finish(
        self,
        ids: Sequence[UUID],
        state: State,
        resolution: Resolution | None = None,
        by: str | None = None,
        note: str | None = None,
    ) -> None:
        if ids:
            statement, span = query("bulk_finish"), (min(ids), max(ids))
            await self._connection.fetch(
                statement, self._tenant_id, ids, state, resolution, *span, by, note
            )

    async def delete(self, ids: Sequence[UUID]) -> int:
        """Remove tasks; gives how many were there."""
        if not ids:
            return 0
        gone = await self._connection.fetch(
            query("bulk_delete"), self._tenant_id, ids, min(ids), max(ids)
        )
        return len(gone)

    # The operation itself

    async def begin(
        self, operation_id: UUID, work: BulkWork, by: str | None, before: UUID, total: CappedCount
    ) -> BulkOperation:
        """Store an operation; one that is for nothing has ended. Raises TooManyBulkOperations."""
        opened = await self._connection.fetchval(query("bulk_room"), self._tenant_id, MOST_OPEN)
        if opened >= MOST_OPEN:
            raise TooManyBulkOperations(MOST_OPEN)
        await self._connection.execute(query("bulk_forget"), self._tenant_id, MOST_KEPT - 1)
        empty = not total.count and not total.capped
        row = await self._connection.fetchrow(
            query("bulk_begin"),
            self._tenant_id,
            operation_id,
            msgspec.json.encode(work).decode(),
            by,
            BulkStatus.FINISHED if empty else BulkStatus.RUNNING,
            before,
            total.count,
            total.capped,
        )
        assert row is not None, "it was inserted"
        return operation_of_row(row)

    async def take(self, operation_id: UUID) -> BulkOperation | None:
        """An operation that is under way, held until the end of the transaction; None where it has
        ended, or another holds it."""
        row = await self._connection.fetchrow(query("bulk_lock"), self._tenant_id, operation_id)
        return None if row is None else operation_of_row(row)

    async def note(
        self,
        operation: BulkOperation,
        position: UUID | None,
        changed: int,
        refused: int,
        reasons: Mapping[str, int],
    ) -> None:
        """Where the operation goes on after a chunk (None: it has ended), and its numbers."""
        await self._connection.execute(
            query("bulk_note"),
            self._tenant_id,
            operation.operation_id,
            position or operation.position,
            changed,
            refused,
            msgspec.json.encode(reasons).decode(),
            position is None,
        )

    async def stop(self, operation_id: UUID) -> BulkOperation:
        """Stop it, where it is under way. Raises BulkOperationNotFound."""
        await self._connection.execute(query("bulk_stop"), self._tenant_id, operation_id)
        row = await self._connection.fetchrow(query("bulk_get"), self._tenant_id, operation_id)
        if row is None:
            raise BulkOperationNotFound(operation_id)
        return operation_of_row(row)


def operation_of_row(row: asyncpg.Record) -> BulkOperation:
    return BulkOperation(
        tenant_id=row["tenant_id"],
        operation_id=row["id"],
        work=_work.decode(row["asked"]),
        created_by=row["created_by"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        status=BulkStatus(row["status"]),
        position=row["position"],
        total=CappedCount(row["total"], row["capped"]),
        changed=row["changed"],
        refused=row["refused"],
        reasons=_reasons.decode(row["reasons"]),
    )


def _after(id_: UUID) -> UUID:
    return id_ if id_ == HIGHEST_ID else UUID(int=id_.int + 1)
