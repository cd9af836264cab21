"""A task that was submitted, and its result.

GnomonError
├── TaskFailed           the task has no result, and never will: `status`, `last_error`, `traceback`
│   ├── TaskCancelled
│   └── TaskExpired
└── ResultUnavailable    the task may have succeeded, but its result cannot be had
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar
from uuid import UUID

import msgspec

from gnomon.client import exchange
from gnomon.client.errors import NotFound
from gnomon.client.exchange import Rules, Steps
from gnomon.client.types.tasks import SubmittedTask, TaskInfo
from gnomon.model.duration import Duration, seconds_of
from gnomon.model.errors import GnomonError
from gnomon.model.tasks.lifecycle import Status
from gnomon.sdk.executing.context import is_note

if TYPE_CHECKING:
    from gnomon.sdk.app import Gnomon

R = TypeVar("R")


class TaskFailed(GnomonError):
    """A task that ended without a result."""

    def __init__(self, task: TaskInfo, traceback: str | None = None) -> None:
        super().__init__(self._summary(task) + _quoted(traceback))
        self.task = task
        self.traceback = traceback  # of the last execution, as text

    @property
    def task_id(self) -> UUID:
        return self.task.task_id

    @property
    def task_type(self) -> str:
        return self.task.task_type

    @property
    def attempts(self) -> int:
        return self.task.attempt

    @property
    def status(self) -> Status:
        return self.task.status

    @property
    def last_error(self) -> str | None:
        return self.task.last_error

    @staticmethod
    def _summary(task: TaskInfo) -> str:
        times = "1 attempt" if task.attempt == 1 else f"{task.attempt} attempts"
        why = f": {task.last_error}" if task.last_error else ""
        return f"{_called(task)} failed after {times} and is {task.status}{why}"


class TaskCancelled(TaskFailed):
    """A task that was cancelled."""

    @staticmethod
    def _summary(task: TaskInfo) -> str:
        return f"{_called(task)} was cancelled"


class TaskExpired(TaskFailed):
    """A task that was not run in time."""

    @staticmethod
    def _summary(task: TaskInfo) -> str:
        at = f" at {task.expires_at.isoformat()}" if task.expires_at is not None else ""
        return f"{_called(task)} expired{at} before it succeeded"


class ResultUnavailable(GnomonError):
    """A result that is gone, or could not be kept."""

    def __init__(self, task_id: UUID, reason: str, what: str = "task") -> None:
        super().__init__(f"the result of {what} {task_id} is not available: {reason}")
        self.task_id = task_id
        self.reason = reason


class Handle(Generic[R]):
    """A task that was submitted. Each method that asks the server has a `_sync` twin."""

    __slots__ = ("_app", "_decode", "id", "warnings")

    def __init__(
        self,
        app: "Gnomon",
        task_id: UUID,
        decode: Callable[[bytes], R],
        warnings: Sequence[str] = (),
    ) -> None:
        self.id = task_id
        self.warnings = tuple(warnings)  # of the submission
        self._app = app
        self._decode = decode

    def __repr__(self) -> str:
        return f"<Handle {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    async def result(self, *, timeout: Duration | None = None) -> R:
        """What the handler returned, once it has. Raises TaskFailed; ResultUnavailable and
        InvalidResult, where it succeeded; WaitTimeout: then the task goes on."""
        steps = self._steps(timeout)
        return await self._app.client.carry_out(steps)

    def result_sync(self, *, timeout: Duration | None = None) -> R:
        """As `result`, from synchronous code: it blocks."""
        return self._app.sync_client.carry_out(self._steps(timeout))

    async def task(self) -> TaskInfo:
        """The task in its present state."""
        return await self._app.client.get_task(self.id)

    def task_sync(self) -> TaskInfo:
        return self._app.sync_client.get_task(self.id)

    async def status(self) -> Status:
        return (await self.task()).status

    def status_sync(self) -> Status:
        return self.task_sync().status

    async def cancel(self, *, interrupt: bool = False) -> TaskInfo | SubmittedTask:
        """Cancels the task; a running one only with `interrupt`. Raises Conflict where it is
        over."""
        return await self._app.client.cancel_task(self.id, interrupt=interrupt)

    def cancel_sync(self, *, interrupt: bool = False) -> TaskInfo | SubmittedTask:
        return self._app.sync_client.cancel_task(self.id, interrupt=interrupt)

    def _steps(self, timeout: Duration | None) -> Callable[[Rules], Steps[R]]:
        seconds = None if timeout is None else seconds_of(timeout)
        return lambda rules: _result(self.id, seconds, self._decode, rules)


def _result(
    task_id: UUID, timeout: float | None, decode: Callable[[bytes], R], rules: Rules
) -> Steps[R]:
    """Waits for the task, and returns its result."""
    try:
        task = yield from exchange.wait(task_id, timeout, rules, include="failure")
    except NotFound as error:
        raise ResultUnavailable(
            task_id,
            "there is no such task; it was deleted, or is older than finished tasks are kept "
            "(database.retention_days)",
        ) from error
    if task.status is Status.COMPLETED:
        return _decoded(task, decode)
    traceback = _last_traceback(task)
    match task.status:
        case Status.CANCELLED:
            raise TaskCancelled(task, traceback)
        case Status.EXPIRED:
            raise TaskExpired(task, traceback)
    raise TaskFailed(task, traceback)


def _last_traceback(task: TaskInfo) -> str | None:
    """Of the last execution that has one: the very last may have been lost, or cancelled."""
    tracebacks = [each.traceback for each in task.executions or () if each.traceback]
    return tracebacks[-1] if tracebacks else None


def _decoded(task: TaskInfo, decode: Callable[[bytes], R]) -> R:
    match task.result:
        case {"gnomon": str(note), **rest} if not rest and is_note(note):
            raise ResultUnavailable(task.task_id, note)
    return decode(msgspec.json.encode(task.result))


def _called(task: TaskInfo) -> str:
    return f"task {task.task_id} ({task.task_type})"


def _quoted(traceback: str | None) -> str:
    """The traceback below the message, so that it shows in the caller's own."""
    if not traceback:
        return ""
    text = traceback.strip("\n").replace("\n", "\n  | ")
    return f"\n\nIn the worker:\n  | {text}"
