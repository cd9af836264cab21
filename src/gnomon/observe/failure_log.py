"""A line in the log for each execution that failed, and for each new dead letter.

Of each task type so many, or a target that is down would fill the disk: the next line says how many
were left out. Errors are told by their type; their text may hold parts of a payload, and stands
with the task.
"""

from collections import Counter
from collections.abc import Callable

import structlog

from gnomon.access.token_buckets import TokenBuckets
from gnomon.model.outcomes.error_type import error_type
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.tasks.lifecycle import State
from gnomon.observe.events import Event, QueueSeen, TaskSettled, TasksSettled
from gnomon.observe.log_fields import about

log = structlog.get_logger("gnomon.tasks")

PER_SECOND = 1.0  # lines of a tenant's task type
BURST = 10.0
MOST_TYPES = 1000  # that are told apart; the rest share their lines
_FAILED = frozenset((OutcomeKind.FAILED, OutcomeKind.TIMED_OUT, OutcomeKind.LOST))
_Kind = tuple[str, str]  # a tenant and a task type
_OTHERS: _Kind = ("", "")


class FailureLog:
    """An observer. What went well costs it a look at the counts of a batch."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lines = TokenBuckets(PER_SECOND, BURST, MOST_TYPES)
        self._left_out: Counter[_Kind] = Counter()

    def __call__(self, event: Event) -> None:
        match event:
            case TasksSettled():
                failed: Counter[_Kind] = Counter()
                for count in event.counts:
                    if count.outcome in _FAILED or count.state is State.DEAD:
                        failed[count.tenant_id, count.task_type] += count.number
                if failed:
                    self._tell(event, failed)
            case QueueSeen():
                self._tell_left_out()

    def _tell(self, event: TasksSettled, failed: Counter[_Kind]) -> None:
        lines = {kind: self._take(kind, number) for kind, number in failed.items()}
        for kind, number in failed.items():
            if number > lines[kind]:
                self._left_out[self._known(kind)] += number - lines[kind]
        if not any(lines.values()):
            return
        for task in event.tasks:
            kind = task.key.tenant_id, task.task_type
            if _has_failed(task) and lines.get(kind, 0):
                lines[kind] -= 1
                _log_failure(task)

    def _take(self, kind: _Kind, number: int) -> int:
        """How many lines there may be of so many."""
        now, taken = self._monotonic(), 0
        while taken < number and not self._lines.take(kind, now):
            taken += 1
        return taken

    def _known(self, kind: _Kind) -> _Kind:
        room = kind in self._left_out or len(self._left_out) < MOST_TYPES
        return kind if room else _OTHERS

    def _tell_left_out(self) -> None:
        now = self._monotonic()
        for kind in [each for each in self._left_out if not self._lines.take(each, now)]:
            tenant, task_type = kind
            log.warning(
                "failed executions were left out of the log",
                tenant=tenant or None,
                task_type=task_type or None,
                executions=self._left_out.pop(kind),
            )


def _has_failed(task: TaskSettled) -> bool:
    return task.outcome in _FAILED or task.state is State.DEAD


def _log_failure(task: TaskSettled) -> None:
    fields = about(task) | {
        "outcome": None if task.outcome is None else task.outcome.label,
        "error_type": error_type(task.error),
    }
    if task.state is State.DEAD:
        log.error("a task became a dead letter", **fields)
        return
    retry_at = None if task.due_at is None else task.due_at.isoformat()
    log.warning("an execution has failed", **fields, retry_at=retry_at)
