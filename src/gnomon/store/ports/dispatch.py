"""Dispatch port: how a node finds, claims, begins and settles tasks."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple, Protocol
from uuid import UUID

import msgspec

from gnomon.model.fleet.pool import EVERYTHING, WHOLE, Pool, Territory, Work
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import Verdict
from gnomon.model.targets.target import Target
from gnomon.model.tasks.flow import UNKNOWN_FLOW
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import (
    DeliveryMode,
    TaskKey,
)
from gnomon.pipe.envelope import Address, Delivery, FencedKey
from gnomon.store.ports.work.writer import Writer


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A hint that a task will be due: all that a node keeps in memory about it."""

    key: TaskKey
    due_at: datetime
    lane: Lane
    losses: int = 0  # any make it a suspect, and say how it must run: see `model.quarantine`
    recurring: bool = False  # a cron job's run, which may need its consent to start
    flow: int = UNKNOWN_FLOW  # what keeps one task of a flow from starting keeps all
    by_handler: bool = False  # a handler runs it; else it is a webhook


# Before all places that a cursor can be at.
BEGINNING = datetime(1, 1, 2, tzinfo=UTC)


class Cursor(msgspec.Struct, frozen=True, gc=False):
    """The place up to which a shard has been read."""

    shard: int
    due_at: datetime
    id: UUID


class FlowKey(msgspec.Struct, frozen=True, order=True, gc=False):
    """One lane of one flow: read on its own when not all due tasks fit into memory."""

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
    """The place up to which a flow has been read, and how many more tasks are wanted."""

    key: FlowKey
    due_at: datetime
    id: UUID
    most: int
    by_handler: bool = False  # as all tasks of the flow


class Claim(msgspec.Struct, frozen=True):
    """The answer to a claim."""

    deliveries: list[Delivery]
    now: datetime | None  # the store's time, where anything was claimed, and none of it early
    unreadable: Sequence["Burial"] = ()  # claimed as well, and to be buried


class Recalls(NamedTuple):
    """The store's time in seconds since the epoch, and a number that has grown by then whenever
    tasks were taken back that had been claimed ahead of their time."""

    now: float
    number: int


class Burial(msgspec.Struct, frozen=True):
    """A running task that can only become a dead letter, under its fence, and why."""

    key: TaskKey
    fence: int
    reason: str


class Buried(NamedTuple):
    """A task that is a dead letter now, because it could not be read or settled."""

    key: TaskKey
    task_type: str
    lane: Lane
    recurring: bool = False  # a cron job's run


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """The end of one execution, to be written under its fence."""

    key: TaskKey
    fence: int
    incarnation: UUID
    verdict: Verdict
    outcome: OutcomeKind | None = None  # None: there was no execution
    started_at: float | None = None  # seconds since the epoch; None: as the store has it
    finished_at: float | None = None
    worker: str | None = None
    error: str | None = None
    response_status: int | None = None
    response_body: str | None = None
    result: str | None = None
    unbegun: bool = False  # holds only while the task has not begun
    traceback: str | None = None  # of an execution that did not succeed
    task_type: str = ""  # for the fingerprint of one that dies
    internal: bool = False  # it failed within Gnomon: for counting, and not stored
    spawns: str | None = None  # JSON: tasks that are stored with it, by `settle_spawning` alone
    address: Address | None = None  # of its row; a wrong one costs a second look


class Taker(msgspec.Struct, frozen=True):
    """A node that takes tasks of workflows which become due with its settlements: up to `most`,
    in these shards, of its pool."""

    incarnation: UUID
    most: int
    shards: frozenset[int]
    pool: Pool = EVERYTHING


class TakenChildren(msgspec.Struct, frozen=True):
    """Tasks that were claimed with a settlement, and their entries, in the same order."""

    entries: list[Entry]
    claim: Claim


class Settled(msgspec.Struct, frozen=True, gc=False):
    """A settlement that was accepted, and the state of the task after it."""

    key: TaskKey
    fence: int
    state: State
    due_at: datetime | None  # of a task that will run again
    cron_job_id: UUID | None = None
    # Of all that were settled with it; on the first of them. Tasks of workflows that became due
    # and wait, whether something is left for the chore of workflows, and those of the tasks that
    # became due that were claimed.
    children: tuple[Entry, ...] = ()
    steps: bool = False
    taken: TakenChildren | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen by itself."""
        return self.state.is_final or self.state is State.DEAD


class RunningTask(msgspec.Struct, frozen=True):
    """A task whose row says that it is running, as the sweeper sees it."""

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
    task_type: str
    lane: Lane
    flow: int
    recurring: bool = False  # a cron job's run
    origin: Origin | None = None
    silent_seconds: float = 0.0  # since the lease of its dead node ran out
    remote: bool = False  # on a worker session
    early: bool = False  # it was claimed ahead of its time, which has not come


class DispatchStore(Protocol):
    """Finds, claims and settles tasks for a node.

    The promises in `gnomon.store.ports` hold; `gnomon.testing.contracts.dispatch` tests them."""

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
        known: Mapping[FlowKey, datetime] = NOTHING_KNOWN,
    ) -> list[WaitingFlow]:
        """Flows that have waiting tasks, in order, after the given one. Of `known` ones, only what
        is due from then on is looked at."""

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
        self,
        incarnation: UUID,
        keys: Sequence[TaskKey],
        flows: Sequence[int] = (),
        sessions: Sequence[UUID] = (),
        early: float = 0.0,
    ) -> Claim:
        """Make RUNNING those of `keys` that are waiting and due, and still of the flow that is
        given for them. In the order of the keys. `sessions`: the claimer is a gateway, and each is
        for this one of its sessions, if that is alive and its own. `early`: also what is due so
        many seconds from now, if it is plain; it may not be called before its time, and only if
        nobody has taken it back by then (`recalls`)."""

    async def recalls(self) -> Recalls:
        """Asked before an early claim, and again when the time of what it gave has come: where the
        number is the same, nothing of it was taken back, and nothing will be."""

    async def begin(self, claimed: Sequence[Delivery]) -> set[FencedKey]:
        """Mark as begun those whose claim still stands; only these may be called. A task may be
        among them by two of its claims, of which one stands at most."""

    async def settle(
        self, settlements: Sequence[Settlement], taker: Taker | None = None
    ) -> list[Settled]:
        """Write outcomes; those whose fence or incarnation is stale are left out. Where there is a
        taker, tasks of workflows that become due with them are claimed for it, as `claim` would,
        but for suspects; which of them is for the store to choose."""

    async def settle_spawning(self, settlement: Settlement, origin: Origin | None) -> list[Settled]:
        """Write a success, and store the tasks that it has spawned, both or none. Nothing where it
        is stale. Raises SpawnRefused."""

    async def bury(self, incarnation: UUID, burials: Sequence[Burial]) -> list[Buried]:
        """Make dead letters of running tasks that cannot be read or settled; gives which."""

    async def payload(self, key: TaskKey) -> bytes | None:
        """A payload that is stored apart from its task."""

    async def running_on(self, incarnation: UUID) -> list[RunningTask]:
        """The tasks that run on this node, as the store has it."""

    async def orphans(self, most: int, *, overdue: bool) -> list[RunningTask]:
        """Running tasks of dead nodes and, with `overdue`, those past `run_until`."""
