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

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import UUID

import msgspec

from gnomon.model.errors import QuotaExceeded
from gnomon.model.explanation import Circumstances
from gnomon.model.flow import UNKNOWN_FLOW
from gnomon.model.lane import Lane
from gnomon.model.lifecycle import State, Status
from gnomon.model.outcome import OutcomeKind
from gnomon.model.pool import EVERYTHING, WHOLE, Pool, Territory, Work
from gnomon.model.retry import RetryPolicy
from gnomon.model.target import Target
from gnomon.model.task import (
    DeliveryMode,
    Execution,
    KeepPayload,
    Resolution,
    Submission,
    Task,
    TaskKey,
)
from gnomon.model.tenant import Pace
from gnomon.model.verdict import Verdict
from gnomon.pipe.envelope import Delivery
from gnomon.store.writer import Writer

if TYPE_CHECKING:
    from gnomon.store.cron_port import CronChange


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


class TaskPatch(msgspec.Struct, frozen=True, kw_only=True):
    """What to change in a waiting task; UNSET leaves it as it is."""

    name: str | msgspec.UnsetType | None = msgspec.UNSET
    payload: bytes | msgspec.UnsetType | None = msgspec.UNSET
    target: Target | msgspec.UnsetType = msgspec.UNSET
    execute_at: datetime | msgspec.UnsetType = msgspec.UNSET
    priority: Lane | msgspec.UnsetType = msgspec.UNSET
    timeout_seconds: float | msgspec.UnsetType = msgspec.UNSET
    expires_at: datetime | msgspec.UnsetType | None = msgspec.UNSET
    retry_policy: RetryPolicy | msgspec.UnsetType = msgspec.UNSET
    tags: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    queue: str | msgspec.UnsetType | None = msgspec.UNSET
    preemptible: bool | msgspec.UnsetType = msgspec.UNSET
    keep_payload: KeepPayload | msgspec.UnsetType = msgspec.UNSET


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenant uses of its quotas; null where there is no quota, and nothing was counted."""

    scheduled_tasks: int | None = None
    submissions_per_second: int | None = None
    cron_jobs: int | None = None
    stored_bytes: int | None = None


class Change(Protocol):
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
    ) -> AbstractAsyncContextManager[Change]:
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

    async def use(self, tenant_id: str) -> Use:
        """What a tenant uses now of the quotas that it has."""

    async def ping(self) -> None:
        """Raises StoreUnavailable where nothing could be stored now."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A hint that a task will be due: all that is kept in memory about it."""

    key: TaskKey
    due_at: datetime
    lane: Lane
    losses: int = 0  # any make it a suspect, and say how it must run: see `model.quarantine`
    recurring: bool = False  # a cron job's run, which may need its consent to start
    flow: int = UNKNOWN_FLOW  # what keeps one task of a flow from starting keeps all


# Before and after all places that a cursor can be at.
BEGINNING = datetime(1, 1, 2, tzinfo=UTC)
LOWEST_ID, HIGHEST_ID = UUID(int=0), UUID(int=(1 << 128) - 1)


class Cursor(msgspec.Struct, frozen=True, gc=False):
    """How far a shard has been read."""

    shard: int
    due_at: datetime
    id: UUID


class FlowKey(msgspec.Struct, frozen=True, order=True, gc=False):
    """One lane of one flow: what is read by itself when not all that is due fits into memory."""

    tenant_id: str
    lane: int  # a Lane, or any number that plain SQL has written
    flow: int


class WaitingFlow(NamedTuple):
    """A flow that has waiting tasks, the first of them due at `due_at`."""

    key: FlowKey
    work: Work | None  # None: its lane does not exist, so it is read by time only
    due_at: datetime


NOTHING_KNOWN: Mapping[FlowKey, datetime] = MappingProxyType({})


class FlowCursor(msgspec.Struct, frozen=True, gc=False):
    """How far a flow has been read, and how many more are wanted."""

    key: FlowKey
    due_at: datetime
    id: UUID
    most: int


class Claim(msgspec.Struct, frozen=True):
    """A batch that was taken."""

    deliveries: list[Delivery]
    now: datetime | None  # the store's time, where anything was claimed
    unreadable: Sequence["Burial"] = ()  # claimed as well, and to be buried


class Burial(msgspec.Struct, frozen=True):
    """A running task that can only become a dead letter, under its fence, and why."""

    key: TaskKey
    fence: int
    reason: str


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """What became of one running task, to be written under its fence."""

    key: TaskKey
    fence: int
    incarnation: UUID
    verdict: Verdict
    outcome: OutcomeKind | None = None  # None: no try was made
    started_at: float | None = None  # seconds since the epoch; None: as the store has it
    finished_at: float | None = None
    worker: str | None = None
    error: str | None = None
    response_status: int | None = None
    response_body: str | None = None
    result: str | None = None
    unbegun: bool = False  # holds only while the task has not begun


class Settled(msgspec.Struct, frozen=True, gc=False):
    """A settlement that was accepted, and where it led."""

    key: TaskKey
    fence: int
    state: State
    due_at: datetime | None  # of a task that will run again
    cron_job_id: UUID | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen by itself."""
        return self.state.is_final or self.state is State.DEAD


class RunningTask(msgspec.Struct, frozen=True):
    """A row that says it is running, as the sweeper sees it."""

    key: TaskKey
    fence: int
    incarnation: UUID
    worker: str | None
    attempt: int
    retries_left: int
    losses: int
    retry_policy: RetryPolicy
    cancel_requested: bool
    mode: DeliveryMode
    begun: bool  # known only of those that ask before they start
    target: Target


class DispatchStore(Protocol):
    """What a node asks, for the tasks."""

    async def scan(
        self, cursors: Sequence[Cursor], until: datetime, each: int, within: Territory = WHOLE
    ) -> list[Entry]:
        """Waiting tasks of a territory after the cursors, due by `until`, at most `each` a shard,
        in order."""

    async def repair(
        self,
        cursors: Sequence[Cursor],
        since: Sequence[datetime],
        until: datetime,
        each: int,
        within: Territory = WHOLE,
    ) -> list[Entry]:
        """Waiting tasks behind the cursors, due from `since`, of each, to `until`, in order."""

    async def flows(
        self,
        after: FlowKey | None,
        most: int,
        *,
        typed: bool = False,
        known: Mapping[FlowKey, datetime] = NOTHING_KNOWN,
    ) -> list[WaitingFlow]:
        """Flows that have waiting tasks, in order, after the given one; with their types and
        queues if asked for. Of `known` ones, only what is due from then on is looked at."""

    async def heads(self, cursors: Sequence[FlowCursor], shards: Collection[int]) -> list[Entry]:
        """Due tasks in these shards, after the cursors, as many of each flow as it wants."""

    async def stealable(
        self,
        shards: Sequence[int],
        seconds: float,
        each: int,
        most: int,
        *,
        suspects: bool,
        pool: Pool = EVERYTHING,
    ) -> list[Entry]:
        """Waiting tasks of a pool that are overdue by so long, the latest of each shard first, at
        most `each` a shard and `most` in all; suspects only if asked for."""

    async def open_writers(self) -> tuple[frozenset[Writer], datetime]:
        """The transactions that have written something and not ended, and the store's time."""

    async def claim(
        self, incarnation: UUID, keys: Sequence[TaskKey], flows: Sequence[int] = ()
    ) -> Claim:
        """Make RUNNING those of `keys` that are waiting and due, and still of the flow that is
        given for them. In the order of the keys."""

    async def begin(self, incarnation: UUID, claimed: Sequence[Delivery]) -> set[TaskKey]:
        """Mark as begun those whose claim still stands; only these may be called."""

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """Write outcomes; those whose fence or incarnation is stale are left out."""

    async def bury(self, incarnation: UUID, burials: Sequence[Burial]) -> list[TaskKey]:
        """Make dead letters of running tasks that cannot be read or settled; gives which."""

    async def payload(self, key: TaskKey) -> bytes | None:
        """A payload that is kept apart."""

    async def running_on(self, incarnation: UUID) -> list[RunningTask]:
        """What the store believes that this node runs."""

    async def orphans(self, most: int, *, overdue: bool) -> list[RunningTask]:
        """Running tasks of dead nodes and, with `overdue`, those past `run_until`."""
