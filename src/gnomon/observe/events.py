"""Typed events of the engine, and the observers that are told of them.

Whatever an event says of the store was committed before. The telling may be lost with the process;
what must not be lost is in the store.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from enum import Enum
from typing import Generic, TypeVar
from uuid import UUID

import msgspec
import structlog

from gnomon.cron.job import Skipped
from gnomon.model.fleet.retention import RowKind
from gnomon.model.insight.event_kinds import BREAKER_CLOSED, BREAKER_OPENED, SLA_MISSED
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import VerdictKind
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.observe.counts import Counted, EndCount, StartCount
from gnomon.observe.log_fields import about
from gnomon.observe.node_events import NodeEvent

log = structlog.get_logger("gnomon.events")

T = TypeVar("T")


class RunsPlanned(msgspec.Struct, frozen=True):
    """Fires of cron jobs became runs."""

    count: int


class FiresMissed(msgspec.Struct, frozen=True):
    """Fires that nobody could start in time, and that get no run."""

    count: int


class RunSkipped(msgspec.Struct, frozen=True):
    """A run that its job's overlap policy kept from starting."""

    reason: Skipped


class TaskBatch(Generic[T]):
    """The tasks of one event, made anew for each listener that looks at them: an event is told for
    thousands of tasks a second, and costs next to nothing where nobody does."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], Iterator[T]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[T]:
        return self._make()


class TaskStarted(msgspec.Struct, frozen=True, kw_only=True):
    """A task that was claimed: its row says RUNNING, and it is called as soon as a slot is free."""

    key: TaskKey
    task_type: str
    lane: Lane
    attempt: int
    due_at: datetime
    started_at: datetime

    @property
    def delay_seconds(self) -> float:
        return (self.started_at - self.due_at).total_seconds()


class TasksStarted(msgspec.Struct, frozen=True):
    """Tasks were claimed together."""

    tasks: TaskBatch[TaskStarted]
    runs: TaskBatch[TaskStarted]  # those of them that are runs of cron jobs
    counts: Counted[StartCount]  # the same as tasks, and costs them next to nothing


class TaskSettled(msgspec.Struct, frozen=True, kw_only=True):
    """A claimed task that was settled, as its row says."""

    key: TaskKey
    task_type: str
    lane: Lane
    attempt: int
    outcome: OutcomeKind | None  # None: it was not called, and is released or has expired
    verdict: VerdictKind
    state: State
    started_at: datetime | None  # None: not called, or its node died with that knowledge
    finished_at: datetime | None
    error: str | None
    due_at: datetime | None  # of one that will run again
    cron_job_id: UUID | None
    origin: Origin | None = None


class TasksSettled(msgspec.Struct, frozen=True):
    """Executions of tasks were recorded together: of those that ran here, or on a node that died.
    Told after the commit, of each execution once at the most: not of one whose node had lost it
    before, nor where the answer to the commit was lost, nor of a task that became a dead letter
    because it could not be read or stored, nor of one that its function has completed in a
    transaction of its own (whether that was committed only the store can tell)."""

    tasks: TaskBatch[TaskSettled]
    counts: Counted[EndCount]  # the same, and costs them next to nothing


class SettlementsPresumed(msgspec.Struct, frozen=True):
    """Settlements were refused because they are there already, as far as one can know: the answer
    to the commit was lost, or the function has completed its task in a transaction of its own. For
    counting only: one whose node had lost it meanwhile is among them now and then."""

    counts: Counted[EndCount]


class TasksBuried(msgspec.Struct, frozen=True):
    """Tasks became dead letters because they could not be read or stored."""

    counts: Counted[EndCount]


class SlaMissed(msgspec.Struct, frozen=True, kw_only=True):
    """A fire that did not start within its window. Kept in the store, too."""

    event_id: UUID
    at: datetime
    tenant_id: str
    cron_job_id: UUID
    cron_job: str | None  # its name; None: it was deleted meanwhile
    task_id: UUID | None  # None: the fire was missed altogether
    fire_at: datetime
    sla_at: datetime
    started_at: datetime | None  # of a run that started too late
    missed: int  # how many fires were missed together


class RunningTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The target of an execution that runs here."""

    key: TaskKey
    task_type: str
    attempt: int
    origin: Origin | None = None
    function: str | None  # None: no Python function
    in_thread: bool


class HandlerHung(msgspec.Struct, frozen=True):
    """A handler went on after it was told to stop. Its execution is reported, and another has its
    place; whatever it still does, nobody waits for it."""

    handler: RunningTarget
    seconds: float  # since it was told


class HandlerReturned(msgspec.Struct, frozen=True):
    """A handler that hung has ended after all."""

    handler: RunningTarget
    seconds: float  # since it was told to stop


class ChildDied(msgspec.Struct, frozen=True, kw_only=True):
    """A child process has died while it ran suspects. They run again, in smaller groups; one that
    was alone in it has killed it."""

    how: str
    tasks: int
    alone: bool
    pid: int | None


class ChildUnfit(msgspec.Struct, frozen=True):
    """A child process cannot be started, or cannot load the app. Tasks that need one wait for the
    next attempt, in so many seconds."""

    why: str
    pause_seconds: float


class BreakerOpened(msgspec.Struct, frozen=True, kw_only=True):
    """Too many calls failed: tasks wait, but for one now and then. Kept in the store, too."""

    tenant_id: str
    host: str | None  # None: all that the tenant runs
    failures: int
    calls: int  # within the last minute
    until: datetime  # when the first task is tried


class BreakerClosed(msgspec.Struct, frozen=True, kw_only=True):
    """A call has succeeded: tasks run again. Kept in the store, too."""

    tenant_id: str
    host: str | None
    seconds: float  # that it was open for


class BreakersForgotten(msgspec.Struct, frozen=True):
    """The node has ended, and with it what its breakers knew."""


class TaskPreempted(msgspec.Struct, frozen=True):
    """A running task was told to give way to a CRITICAL one. It will run again."""

    key: TaskKey
    task_type: str
    lane: Lane
    attempt: int
    origin: Origin | None = None


class ChoreFailed(msgspec.Struct, frozen=True):
    """An error in a piece of background work, which is tried again."""

    chore: str


class QueueSeen(msgspec.Struct, frozen=True):
    """A look at what is due on a node and waits for a slot, by lane."""

    ready: Mapping[Lane, int]
    longest_waits: Mapping[Lane, float]  # seconds


class RetentionSeen(msgspec.Struct, frozen=True):
    """A look at how far rows past their time were removed."""

    kind: RowKind
    behind_seconds: float  # since all of them were; 0: they are


class SpanResult(Enum):
    """What became of a span."""

    EXPORTED = "exported"
    FAILED = "failed"  # the collector did not take it
    DROPPED = "dropped"  # too many waited


class SpansEnded(msgspec.Struct, frozen=True):
    """Spans were sent to the collector, or not."""

    result: SpanResult
    number: int


Event = (
    RunsPlanned
    | FiresMissed
    | RunSkipped
    | TasksStarted
    | TasksSettled
    | SettlementsPresumed
    | TasksBuried
    | SlaMissed
    | HandlerHung
    | HandlerReturned
    | TaskPreempted
    | ChildDied
    | ChildUnfit
    | BreakerOpened
    | BreakerClosed
    | BreakersForgotten
    | ChoreFailed
    | NodeEvent
    | QueueSeen
    | RetentionSeen
    | SpansEnded
)
# Called on the node's event loop, between a claim or a settlement and the next: it must not block.
Observer = Callable[[Event], None]


def nobody(event: Event) -> None:
    """An observer for where nobody listens."""


class _Isolated:
    """An observer whose errors are logged, and concern nobody else. Not every one of them: it may
    fail at each of thousands of events a second."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._failures = 0

    def __call__(self, event: Event) -> None:
        try:
            self._observer(event)
        except Exception:
            self._failures += 1
            if self._failures.bit_count() == 1:  # the first, second, fourth, eighth …
                log.exception(
                    "a listener failed on an event",
                    listener=repr(self._observer),
                    told=type(event).__name__,
                    failures=self._failures,
                )


def fan_out(*observers: Observer) -> Observer:
    """Tell all of them, in this order. One that raises keeps no other from being told, nor the
    engine from going on."""
    isolated = [_Isolated(observer) for observer in observers]

    def tell(event: Event) -> None:
        for observer in isolated:
            observer(event)

    return tell


def to_log(event: Event) -> None:
    """Events that somebody should read. The others are for counting."""
    match event:
        case SlaMissed():
            _log_missed(event)
        case HandlerHung(handler, seconds):
            log.warning("a handler ignores its cancellation", **_about(handler, seconds))
        case HandlerReturned(handler, seconds):
            log.info("a handler that hung has returned", **_about(handler, seconds))
        case ChildDied(how=how, tasks=tasks, alone=alone, pid=pid):
            what = "a suspect has killed its process" if alone else "a process of suspects died"
            log.warning(what, how=how, tasks=tasks, process=pid)
        case ChildUnfit(why, pause):
            log.error("a child process cannot start", why=why, next_try_in=pause)
        case BreakerOpened():
            log.warning(
                "a breaker has opened: tasks wait",
                kind=BREAKER_OPENED,
                tenant=event.tenant_id,
                host=event.host,
                failures=event.failures,
                calls=event.calls,
                until=event.until.isoformat(),
            )
        case BreakerClosed(tenant_id=tenant, host=host, seconds=seconds):
            told = {"tenant": tenant, "host": host, "seconds": round(seconds, 3)}
            log.info("a breaker has closed: tasks run again", kind=BREAKER_CLOSED, **told)
        case TaskPreempted():
            priority = event.lane.name
            log.info("a task gives way to a CRITICAL one", priority=priority, **about(event))


def _about(handler: RunningTarget, seconds: float) -> dict[str, object]:
    return {
        **about(handler),
        "function": handler.function,
        "runs_in": place(handler),
        "seconds_over": round(seconds, 3),
    }


def place(handler: RunningTarget) -> str:
    """Where it runs, as logs and metrics call it."""
    return "thread" if handler.in_thread else "loop"


def _log_missed(event: SlaMissed) -> None:
    log.warning(
        "a cron job's run missed its SLA",
        kind=SLA_MISSED,
        event_id=str(event.event_id),
        job=event.cron_job,
        cron_job_id=str(event.cron_job_id),
        task_id=None if event.task_id is None else str(event.task_id),
        fire_at=event.fire_at.isoformat(),
        sla_at=event.sla_at.isoformat(),
        started_at=None if event.started_at is None else event.started_at.isoformat(),
        missed=event.missed,
    )
