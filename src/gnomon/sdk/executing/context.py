"""The execution as a handler sees it."""

import asyncio
import logging
import threading
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, Protocol
from uuid import UUID

import msgspec

from gnomon.model.tasks.task import DeliveryMode, TaskKey
from gnomon.model.text import storable
from gnomon.sdk.errors import CannotSpawn, NoTransaction
from gnomon.sdk.executing.failure import describe
from gnomon.sdk.values import encoded
from gnomon.workflow.spawning import MOST_SPAWN_BYTES, MOST_SPAWNS, cannot_spawn, spawned_id

if TYPE_CHECKING:
    from gnomon.sdk.submitting.prepared import Submittable

MAX_RESULT_BYTES = 64 * 1024
MAX_PROGRESS_CHARACTERS = 200

P = ParamSpec("P")

_LOGGER = logging.getLogger("gnomon.task")
_spawning = threading.Lock()

_TOO_LARGE = "the result has"
_NO_JSON = "the result cannot be kept as JSON"
_check = msgspec.json.Decoder(msgspec.Raw)  # reads without making anything of it


class ClaimedTask(Protocol):
    """A claimed task, as far as its handler may know it. A `Delivery` is one."""

    @property
    def key(self) -> TaskKey: ...
    @property
    def fence(self) -> int: ...
    @property
    def incarnation(self) -> UUID: ...
    @property
    def attempt(self) -> int: ...
    @property
    def retries_left(self) -> int: ...
    @property
    def task_type(self) -> str: ...
    @property
    def execute_at(self) -> datetime: ...
    @property
    def idempotency_key(self) -> str | None: ...
    @property
    def mode(self) -> DeliveryMode: ...
    @property
    def correlation_id(self) -> str: ...
    @property
    def workflow_node(self) -> str | None: ...


class NotBegun(BaseException):
    """The handler was not called: it may not be any more. No error of a handler, so what is around
    one does not take it for such."""


class Progress(NamedTuple):
    """How far an execution has come, by its own word."""

    fraction: float  # of the work, 0 to 1
    text: str | None


class TaskContext:
    """One execution of a task. A handler gets it in a parameter that is annotated with this class,
    whatever its name."""

    __slots__ = (
        "_clock", "_connection", "_deadline", "_spawned", "_spawned_bytes", "_start_by", "_task",
        "_told", "called", "completed", "in_thread", "log_lines", "may_begin", "put_off", "refused",
        "reported",
    )  # fmt: skip

    def __init__(self, task: ClaimedTask) -> None:
        self._task = task
        self._clock: Callable[[], float] | None = None
        self._deadline: float | None = None
        self._start_by: float | None = None
        self.put_off = 0.0  # seconds that the deadline is later than it was when the call began
        self._told = False
        self._connection: Any = None
        self._spawned: list[bytes] | None = None
        self._spawned_bytes = 2
        self.completed = False  # in a transaction that may or may not have been committed
        self.in_thread = False
        self.reported: Progress | None = None  # the latest; the node stores it
        self.log_lines: Any = None  # what the node knows of the lines that it has logged
        self.may_begin: Callable[[], bool] | None = None  # the handler; None: nobody minds
        self.called = False  # the handler, once at least
        self.refused = False  # to call it, once at least

    # For whoever runs it

    def begin(
        self, deadline: float, clock: Callable[[], float], start_by: float | None = None
    ) -> None:
        """The call begins: its time is up at `deadline`, in seconds since the epoch by `clock`.
        Whoever runs it honours what puts that off: waits for a transaction, until `start_by`; None:
        nothing does."""
        self._deadline = deadline
        self._clock = clock
        self._start_by = start_by

    async def take_turn(self, turns: asyncio.Semaphore) -> None:
        """Wait for one of a few things that executions share, before the handler is called: until
        `start_by`, since others may have one. Raises NotBegun. Who is told to stop meanwhile was
        not called."""
        bound = None if self.called else self._until_start_by()
        try:
            async with asyncio.timeout(bound):
                await turns.acquire()
        except TimeoutError:
            self.refused = True
            raise NotBegun from None
        except asyncio.CancelledError:
            self.refused = self.refused or self._told
            raise

    def waiting_since(self) -> float | None:
        """When a wait begins that is none of the handler's time; None where it is."""
        return None if self._start_by is None or self._clock is None else self._clock()

    def end_wait(self, since: float | None) -> None:
        """Put the deadline off by what was waited since then. What lies behind `start_by` counts:
        the execution must have ended before others may take its task over."""
        if since is None or self._deadline is None or self._clock is None or self._start_by is None:
            return
        waited = max(0.0, min(self._clock(), self._start_by) - since)
        self.put_off += waited
        self._deadline += waited

    def _until_start_by(self) -> float | None:
        if self._start_by is None or self._clock is None:
            return None
        return max(0.0, self._start_by - self._clock())

    def ask_to_begin(self) -> None:
        """Ask once more, after a wait: whoever runs it may have stood still meanwhile. A handler
        that was called before may be called again. Raises NotBegun."""
        if self.called or self.may_begin is None or self.may_begin():
            return
        self.refused = True
        raise NotBegun

    @property
    def unbegun(self) -> bool:
        """Whether the handler was not called because it might not be, whatever the code around it
        has made of that: it may have caught or replaced NotBegun."""
        return self.refused and not self.called

    def tell_to_stop(self) -> None:
        """The execution is to end, for whatever reason: its time is up, its task was cancelled, or
        the node stops."""
        self._told = True

    def enter_transaction(self, connection: Any) -> None:
        """What the handler writes by `connection` is committed with the end of its task."""
        self._connection = connection

    def leave_transaction(self) -> None:
        self._connection = None

    @property
    def spawns(self) -> str | None:
        """What was spawned, as JSON."""
        return f"[{b','.join(self._spawned).decode()}]" if self._spawned else None

    # For the handler

    @property
    def connection(self) -> Any:
        """Of a handler with transactional=True: a connection of asyncpg in an open transaction,
        which is committed with the end of the task, or not at all. Raises NoTransaction."""
        if self._connection is None:
            raise NoTransaction
        return self._connection

    @property
    def tenant_id(self) -> str:
        return self._task.key.tenant_id

    @property
    def task_id(self) -> UUID:
        """The same for every execution."""
        return self._task.key.id

    @property
    def task_type(self) -> str:
        return self._task.task_type

    @property
    def attempt(self) -> int:
        """The first is 1."""
        return self._task.attempt

    @property
    def retries_left(self) -> int:
        """How many more executions may follow if this one fails."""
        return self._task.retries_left

    @property
    def fence(self) -> int:
        """Grows with every execution: a store that keeps the highest can refuse the others."""
        return self._task.fence

    @property
    def node(self) -> UUID:
        """The incarnation of the node that runs it."""
        return self._task.incarnation

    @property
    def scheduled_for(self) -> datetime:
        return self._task.execute_at

    @property
    def deadline(self) -> datetime | None:
        """When the execution times out; None where it has no end."""
        return None if self._deadline is None else datetime.fromtimestamp(self._deadline, UTC)

    @property
    def remaining(self) -> float:
        """Seconds until the deadline: 0 once it has passed, infinite where there is none."""
        if self._deadline is None or self._clock is None:
            return float("inf")
        return max(0.0, self._deadline - self._clock())

    @property
    def idempotency_key(self) -> str | None:
        """As it was submitted."""
        return self._task.idempotency_key

    @property
    def correlation_id(self) -> str:
        """As it was submitted, else the task's id. Tasks that the handler submits have the same."""
        return self._task.correlation_id

    @property
    def workflow_node(self) -> str | None:
        """The node of a workflow run that the task is; None: it is in none."""
        return self._task.workflow_node

    @property
    def mode(self) -> DeliveryMode:
        return self._task.mode

    @property
    def cancelled(self) -> bool:
        """Whether the execution was told to stop, for whatever reason. A function in a thread
        cannot be stopped from outside: one that runs long should look here and return."""
        return self._told

    @property
    def logger(self) -> "logging.LoggerAdapter[logging.Logger]":
        """Its records carry the task's id and type and the attempt."""
        about = {
            "task_id": str(self.task_id),
            "task_type": self.task_type,
            "attempt": self.attempt,
        }
        return logging.LoggerAdapter(_LOGGER, about)

    def progress(self, fraction: float, text: str | None = None) -> None:
        """Say how far the work has come, from any thread. Only the latest is kept."""
        if not 0 <= fraction <= 1:
            raise ValueError(f"progress is a fraction between 0 and 1; got {fraction!r}")
        if text is not None:
            text = storable(str(text)[:MAX_PROGRESS_CHARACTERS])
        self.reported = Progress(float(fraction), text)

    def spawn(self, task: "Submittable[P, Any]", *args: P.args, **kwargs: P.kwargs) -> UUID:
        """Add a task to the workflow run that this one is a node of, from any thread; gives its id.
        It is stored if and when this execution succeeds, together with that; what comes after this
        node waits for it as well. Raises CannotSpawn, InvalidArguments."""
        why = cannot_spawn(self._task.workflow_node)
        if why is None and self._connection is not None:
            why = (
                "a handler with transactional=True cannot spawn: it completes its task in a "
                "transaction of its own; spawn in another step"
            )
        if why is not None:
            raise CannotSpawn(why)
        spec = msgspec.json.encode(task.prepare(*args, **kwargs).spawn_spec())
        with _spawning:
            if self._spawned is None:
                self._spawned = []
            number, size = len(self._spawned), self._spawned_bytes + len(spec) + 1
            if number >= MOST_SPAWNS:
                raise CannotSpawn(f"an execution spawns at most {MOST_SPAWNS} tasks")
            if size > MOST_SPAWN_BYTES:
                raise CannotSpawn(
                    f"the arguments of what an execution spawns have at most {MOST_SPAWN_BYTES} "
                    "bytes together; pass references"
                )
            self._spawned.append(spec)
            self._spawned_bytes = size
        return spawned_id(self.task_id, number)


# The execution that the running code belongs to, so that log lines can name it.
current: ContextVar[TaskContext | None] = ContextVar("gnomon_task", default=None)


def optional_result(result: object) -> str | None:
    """As JSON; None stays None."""
    return None if result is None else stored_result(result)


def stored_result(result: object) -> str:
    """As JSON. Where that cannot be, a note in its place: the work was done, so doing it again
    would be wrong, and the result alone is lost."""
    try:
        text = encoded(result)
        if len(text) > MAX_RESULT_BYTES:
            return _note(f"{_TOO_LARGE} {len(text)} bytes; {MAX_RESULT_BYTES} are kept")
        _check.decode(text)  # a msgspec.Raw in it, or a model of pydantic's, may be anything
        return text.decode()
    except BaseException as error:  # noqa: BLE001 - whatever the classes in a result raise
        return _note(f"{_NO_JSON}: {describe(error)}")


def is_note(text: str) -> bool:
    """Whether it is what `stored_result` says in place of a result."""
    return text.startswith((_TOO_LARGE, _NO_JSON))


def _note(text: str) -> str:
    return msgspec.json.encode({"gnomon": text}).decode()
