"""Stores submissions that arrive together in one commit.

While one insert is in progress, the next submissions gather. So the batch grows with the load. A
single submission waits for others only while their commit is under way, and not for long.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Sequence

import msgspec

from gnomon.model.errors import (
    IdempotencyConflict,
    IdempotencyPending,
    Overloaded,
    StatementRefused,
    StoreError,
    TenantBusy,
    Unstorable,
)
from gnomon.model.fleet.crowding import SHED_FROM
from gnomon.store.ports.work.tasks import NewTask, Receipt
from gnomon.store.postgres.tasks.task_store import PostgresTasks

MOST_WAITING = 10_000
MOST_WAITING_BYTES = 64 * 1024 * 1024
MOST_TOGETHER = 1_000
MOST_TOGETHER_BYTES = 8 * 1024 * 1024
WRITERS = 2  # the second gathers and sends while the first waits for the disk,
WORTH_A_COMMIT = 32  # but not for fewer: a commit costs both sides as much as dozens of its tasks.
PATIENCE_SECONDS = 0.005  # Then it does so for any: the first may be held up


class _Waiting(msgspec.Struct, frozen=True, eq=False):
    """A submission and the future of its receipt."""

    new: NewTask
    told: asyncio.Future[Receipt]
    size: int

    @property
    def tenant_id(self) -> str:
        return self.new.submission.tenant_id

    def tell(self, outcome: Receipt | Exception) -> None:
        if self.told.done():
            return  # the caller has gone
        if isinstance(outcome, Exception):
            self.told.set_exception(outcome)
        else:
            self.told.set_result(outcome)


class SubmissionBatcher:
    """Stores submissions of all tenants while `run` is running.

    The writers never wait for long. Where a transaction of others holds a tenant's quotas, or an
    idempotency key is in use, a task beside the writers waits; what the tenant submits meanwhile
    gathers there.
    """

    def __init__(self, store: PostgresTasks, patience: float = PATIENCE_SECONDS) -> None:
        self._store = store
        self._patience = patience
        self._waiting: deque[_Waiting] = deque()
        self._held: dict[str, deque[_Waiting]] = {}  # by tenant, while others hold its quotas
        self._number = 0  # of submissions in both
        self._bytes = 0
        self._writing = 0  # writers that are waiting for PostgreSQL
        self._filled = asyncio.Event()  # there is enough for another commit
        self._hurry: asyncio.TimerHandle | None = None  # when few will do

    def submit(self, new: NewTask) -> "asyncio.Future[Receipt]":
        """The receipt, once the task is committed; or QuotaExceeded, IdempotencyConflict. Raises
        Overloaded at once, for LOW tasks first."""
        part = SHED_FROM[new.submission.priority]
        if self._number >= part * MOST_WAITING or self._bytes >= part * MOST_WAITING_BYTES:
            raise Overloaded("too many submissions wait to be stored; slow down")
        loop = asyncio.get_running_loop()
        told: asyncio.Future[Receipt] = loop.create_future()
        size = len(new.submission.payload or b"")
        self._waiting.append(_Waiting(new, told, size))
        self._number += 1
        self._bytes += size
        if not self._writing or len(self._waiting) >= WORTH_A_COMMIT:
            self._filled.set()
        elif self._hurry is None:
            self._hurry = loop.call_later(self._patience, self._filled.set)
        return told

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(WRITERS):
                    group.create_task(self._write(group))
        finally:
            for waiting in itertools.chain(self._waiting, *self._held.values()):
                waiting.told.cancel()

    async def _write(self, group: asyncio.TaskGroup) -> None:
        while True:
            await self._filled.wait()
            gathered = self._gather(self._waiting)
            if not self._waiting:
                self._filled.clear()
                self._take_time()
            if self._held:
                gathered = [waiting for waiting in gathered if not self._hold(waiting)]
            if not gathered:
                continue
            self._writing += 1
            try:
                await self._store_together(group, gathered)
            finally:
                self._writing -= 1
            if self._waiting:
                self._filled.set()

    def _take_time(self) -> None:
        """Nobody waits."""
        if self._hurry is not None:
            self._hurry.cancel()
            self._hurry = None

    def _gather(self, line: deque[_Waiting]) -> list[_Waiting]:
        gathered: list[_Waiting] = []
        number = size = 0
        while line and len(gathered) < MOST_TOGETHER and size < MOST_TOGETHER_BYTES:
            waiting = line.popleft()
            number += 1
            size += waiting.size
            if not waiting.told.done():
                gathered.append(waiting)
        self._number -= number
        self._bytes -= size
        return gathered

    def _hold(self, waiting: _Waiting) -> bool:
        """Queues it with those that wait for its tenant; returns whether there are any."""
        held = self._held.get(waiting.tenant_id)
        if held is None:
            return False
        held.append(waiting)
        self._number += 1
        self._bytes += waiting.size
        return True

    async def _store_together(
        self, group: asyncio.TaskGroup, batch: Sequence[_Waiting], *, patient: bool = False
    ) -> None:
        """Stores a batch. One bad submission never fails the others."""
        try:
            receipts = await self._store.insert([w.new for w in batch], patient=patient)
        except IdempotencyPending as error:
            await self._store_pending(group, batch, error, patient=patient)
        except (Unstorable, StatementRefused) as error:
            await self._store_halves(group, batch, error, patient=patient)
        except TenantBusy as error:
            self._store_apart(group, batch, error, patient=patient)
        except Exception as error:  # noqa: BLE001 - whoever waits answers: 503, or 500 and a log
            _tell_all(batch, error)
        except asyncio.CancelledError:
            for waiting in batch:
                waiting.told.cancel()
            raise
        else:
            for waiting, receipt in zip(batch, receipts, strict=True):
                waiting.tell(
                    receipt.refused or (_conflict(waiting) if receipt.conflict else receipt)
                )

    async def _store_pending(
        self,
        group: asyncio.TaskGroup,
        batch: Sequence[_Waiting],
        error: IdempotencyPending,
        *,
        patient: bool,
    ) -> None:
        """Another request is using one of the keys. Submissions without a key are stored now; each
        of the others waits on its own."""
        if patient and len(batch) == 1:
            _tell_all(batch, error)
            return
        free = [waiting for waiting in batch if waiting.new.once is None]
        for waiting in batch:
            if waiting.new.once is not None:
                group.create_task(self._store_together(group, [waiting], patient=True))
        if free:
            await self._store_together(group, free, patient=patient)

    def _store_apart(
        self,
        group: asyncio.TaskGroup,
        batch: Sequence[_Waiting],
        error: TenantBusy,
        *,
        patient: bool,
    ) -> None:
        """Others hold the quotas of one of the tenants: each tenant waits on its own."""
        if patient:
            _tell_all(batch, error)
            return
        for waiting in batch:
            if not self._hold(waiting):
                self._held[waiting.tenant_id] = deque()
                self._hold(waiting)
                group.create_task(self._wait_for(group, waiting.tenant_id))

    async def _wait_for(self, group: asyncio.TaskGroup, tenant_id: str) -> None:
        held = self._held[tenant_id]
        while held:
            await self._store_together(group, self._gather(held), patient=True)
        del self._held[tenant_id]

    async def _store_halves(
        self,
        group: asyncio.TaskGroup,
        batch: Sequence[_Waiting],
        error: StoreError,
        *,
        patient: bool,
    ) -> None:
        if len(batch) == 1:
            _tell_all(batch, error)
            return
        middle = len(batch) // 2
        await self._store_together(group, batch[:middle], patient=patient)
        await self._store_together(group, batch[middle:], patient=patient)


def _conflict(waiting: _Waiting) -> IdempotencyConflict:
    assert waiting.new.once is not None, "only a key can be in conflict"
    return IdempotencyConflict(waiting.new.once.key)


def _tell_all(batch: Sequence[_Waiting], error: Exception) -> None:
    for waiting in batch:
        waiting.tell(error)
