"""What the engine asks of its store: the contract that every store keeps.

Truth. Nothing is acknowledged before it is committed: when a method returns, its effect survives
the loss of every process. When it raises `StoreUnavailable`, the effect may or may not have
happened (the answer to a COMMIT can be lost), so each method can be called again with the same
arguments without doing it twice.

Time. Only the store's own clock decides what is due and which node is alive.

Fences. Every entry into and exit from RUNNING makes the task's fence grow. `settle` writes only
where fence and incarnation are still those of the claim; what is refused is simply not in its
answer.

Tenants. Every key carries its tenant; another tenant's task does not exist.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

import msgspec

from gnomon.model.errors import QuotaExceeded
from gnomon.model.explanation import Circumstances
from gnomon.model.lifecycle import Status
from gnomon.model.priority import Lane
from gnomon.model.task import (
    Execution,
    Resolution,
    Submission,
    Task,
    TaskKey,
    TaskPatch,
)
from gnomon.model.tenant import Pace

if TYPE_CHECKING:
    from gnomon.store.ports.cron import CronChange


class Once(msgspec.Struct, frozen=True):
    """A request that must take effect once: its key, and what it was about."""

    key: str
    fingerprint: bytes


class NewTask(msgspec.Struct, frozen=True):
    """A submission and, where it carries an idempotency key, the answer to be replayed."""

    submission: Submission
    once: Once | None = None
    answer: bytes = b"null"  # JSON, less the payload (the repeated request brings it again)


class Receipt(msgspec.Struct, frozen=True):
    """What became of one submission: stored, replayed, or refused (`conflict`, `refused`)."""

    task_id: UUID
    replay: bytes | None = None
    conflict: bool = False
    refused: QuotaExceeded | None = None
    pace: Pace | None = None  # of submissions, where they are bounded


class TaskFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a list shows. None means all."""

    status: Status | None = None
    task_type: str | None = None
    priority: Lane | None = None
    tag: str | None = None
    queue: str | None = None
    cron_job_id: UUID | None = None
    due_after: datetime | None = None
    due_before: datetime | None = None


class Page(msgspec.Struct, frozen=True):
    """Newest first. A page does bounded work, so it may be short and still have a successor."""

    tasks: list[Task]
    next_cursor: UUID | None


class QuotaUse(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenant uses of its quotas; null where there is no quota, and nothing was counted."""

    scheduled_tasks: int | None = None
    submissions_per_second: int | None = None
    cron_jobs: int | None = None
    stored_bytes: int | None = None


class TaskChange(Protocol):
    """One transaction of a tenant. Nothing in it has happened until the context is left."""

    replay: bytes | None  # the first answer, where the key was used before: then change nothing
    answer: bytes  # to be kept with the key; set it before leaving the context

    @property
    def cron(self) -> "CronChange":
        """Changes of cron jobs, in the same transaction."""

    async def insert(self, batch: Sequence[NewTask]) -> list[Receipt]:
        """Store new tasks, each under its own key where it has one. Raises QuotaExceeded where not
        all of them may be stored."""

    async def get(self, task_id: UUID) -> Task:
        """Read one, locked until the end of the transaction where it is live."""

    async def cancel(self, task_id: UUID, *, interrupt: bool) -> Task:
        """Cancel. A running task is only cancelled with `interrupt`, and then by its node."""

    async def pause(self, task_id: UUID) -> Task:
        """Keep a waiting task from running."""

    async def resume(self, task_id: UUID) -> Task:
        """Let a paused task run again, at its time, or now where that has passed."""

    async def patch(self, task_id: UUID, patch: TaskPatch) -> Task:
        """Change a task that waits."""

    async def delete(self, task_id: UUID) -> None:
        """Remove a task, its payload and its tries. A running one is refused."""

    async def redrive(self, task_id: UUID) -> Task:
        """Run a dead letter again: now, with a new retry budget, under the same id. Raises
        QuotaExceeded."""

    async def redrive_matching(self, chosen: TaskFilter, most: int) -> tuple[int, bool]:
        """Run dead letters again, at most so many and no more than the quotas allow; gives how
        many, and whether there are more. Raises QuotaExceeded where they allow none."""

    async def hasten(self, task_id: UUID) -> Task:
        """Make a retry that is waiting for its time run now."""

    async def resolve(self, task_id: UUID, resolution: Resolution) -> Task:
        """Put a dead letter to rest in the archive."""


class TaskStore(Protocol):
    """What the API asks."""

    async def insert(self, batch: Sequence[NewTask], *, patient: bool = True) -> list[Receipt]:
        """Store tasks of any tenants in one commit; a conflict or a quota fails only its own
        entry. Who is `patient` waits for seconds where others hold something up, and not for a
        moment only. Raises IdempotencyPending, and TenantBusy where one tenant is held up."""

    def change(
        self, tenant_id: str, once: Once | None = None
    ) -> AbstractAsyncContextManager[TaskChange]:
        """Begin a transaction. With a key that is in use it waits for the first request."""

    async def answered(self, tenant_id: str, requests: Sequence[Once]) -> Mapping[Once, bytes]:
        """The first answers to those of the requests that were made before."""

    async def get(self, key: TaskKey) -> Task:
        """Read one, wherever it is, in one snapshot. Raises TaskNotFound."""

    async def executions(self, key: TaskKey) -> list[Execution]:
        """All tries, oldest first. Raises TaskNotFound."""

    async def circumstances(self, key: TaskKey) -> Circumstances:
        """What surrounds a task: the nodes, and the queue before it."""

    async def list(
        self, tenant_id: str, chosen: TaskFilter, cursor: UUID | None, limit: int
    ) -> Page:
        """Tasks older than `cursor`, live and finished, newest first."""

    async def list_dead(
        self, tenant_id: str, chosen: TaskFilter, cursor: UUID | None, limit: int
    ) -> Page:
        """Dead letters that are not resolved."""

    async def use(self, tenant_id: str) -> QuotaUse:
        """What a tenant uses now of the quotas that it has."""

    async def ping(self) -> None:
        """Raises StoreUnavailable where nothing could be stored now."""


LOWEST_ID, HIGHEST_ID = UUID(int=0), UUID(int=(1 << 128) - 1)
