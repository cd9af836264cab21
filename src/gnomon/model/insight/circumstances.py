"""Facts beside a task that decide when it runs. Pure."""

from datetime import datetime
from uuid import UUID

import msgspec

from gnomon.model.fleet.crowding import Crowd

COUNTED_AHEAD = 1000  # beyond this, "at least"


class OpenBreaker(msgspec.Struct, frozen=True):
    """A breaker that keeps a node from calling a host; None: from running anything."""

    node: str
    host: str | None
    until: datetime
    opened_at: datetime | None = None  # None, here and below: an older node has not said
    calls: int | None = None  # of the minute before it opened
    failures: int | None = None
    error: str | None = None  # of the last call that failed


class LimitUse(msgspec.Struct, frozen=True):
    """A limiter that a task needs the permits of, and how much of it is in use."""

    name: str
    concurrency: int | None
    rate: int | None
    per_seconds: float
    key: str  # the task's; "" where the limiter has none
    running: int
    started: int = 0  # starts that count now


class FailingChore(msgspec.Struct, frozen=True):
    """Background work of a process that fails, for all or for something of the task's tenant."""

    chore: str
    node: str
    since: datetime
    subject: str = ""  # what of the tenant's
    error: str = ""  # told where it is the tenant's own
    sqlstate: str | None = None
    remedy: str = ""


class WaitedFor(msgspec.Struct, frozen=True):
    """A node of a workflow that another waits for, by its name and its task."""

    node: str
    task_id: UUID
    dead: bool  # it is a dead letter
    spawned: int | None = None  # it has spawned so many others, which are waited for as well
    unended: int = 0  # of these
    dead_below: str | None = None  # one of these that is a dead letter

    def __str__(self) -> str:
        if self.spawned is None:
            return self.node
        left = f"{self.unended} of {self.spawned} have not ended"
        return f"{self.node}, which has spawned others: {left}"


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """Facts beside a task that decide when it runs: the store's time, the nodes, the queue."""

    now: datetime
    due_at: datetime | None = None
    run_until: datetime | None = None
    shard: int
    server: str | None = None  # the node that serves the task's shard
    server_alive_until: datetime | None = None
    running_on: str | None = None
    on_session: bool = False  # of a remote worker
    by_session: bool = False  # the node that serves it is a gateway, for remote workers
    ahead: int = 0  # due tasks of its shard that come first, counted up to COUNTED_AHEAD
    cron_job: str | None = None  # the name of the job that it is a run of
    active_run: UUID | None = None  # the task of that job that may be under way
    breakers: tuple[OpenBreaker, ...] = ()  # all that are open for its tenant
    nodes: int = 0  # in the roster, whatever they serve
    handled: frozenset[str] | None = None  # its tenant's task types with a handler; None: any
    limits: tuple[LimitUse, ...] = ()
    failing: tuple[FailingChore, ...] = ()
    stuck_since: datetime | None = None  # it was told to be stuck
    stuck_reason: str | None = None
    waits_for: tuple[WaitedFor, ...] = ()  # of a node of a workflow
    run_paused: bool = False  # the run of the workflow
    waits_signal: str | None = None  # that the node waits for
    waits_until: datetime | None = None  # likewise
    waits_batch: str | None = None  # of a callback of a batch: for what of it
    crowd: Crowd | None = None  # of its lane, where new tasks are refused
