"""Lines about failures: one for each, so many of a type, and how many were left out."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from gnomon.model.outcomes.error_type import error_type
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import VerdictKind
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import TaskKey
from gnomon.observe.counts import Counted, end_count
from gnomon.observe.events import QueueSeen, TaskBatch, TaskSettled, TasksSettled
from gnomon.observe.failure_log import BURST, FailureLog

SEEN = QueueSeen(dict.fromkeys(Lane, 0), dict.fromkeys(Lane, 0.0))


class World:
    def __init__(self) -> None:
        self.now = 0.0
        self.log = FailureLog(lambda: self.now)

    def settle(self, *tasks: TaskSettled) -> list[Any]:
        with capture_logs() as lines:
            self.log(_settled(tasks))
        return list(lines)

    def look(self) -> list[Any]:
        with capture_logs() as lines:
            self.log(SEEN)
        return list(lines)


def _settled(tasks: Iterable[TaskSettled]) -> TasksSettled:
    told = tuple(tasks)
    counts = [
        end_count((t.key.tenant_id, t.task_type, t.lane, False, t.outcome, False, t.state), [0.1])
        for t in told
    ]
    return TasksSettled(TaskBatch(lambda: iter(told)), Counted(lambda: counts))


def task(number: int = 1, **changes: Any) -> TaskSettled:
    fields: dict[str, Any] = {
        "key": TaskKey("acme", UUID(int=number)),
        "task_type": "mail",
        "lane": Lane.LOW,
        "attempt": 2,
        "outcome": OutcomeKind.FAILED,
        "verdict": VerdictKind.RETRY,
        "state": State.WAITING,
        "started_at": None,
        "finished_at": None,
        "error": "ValueError: secret-payload",
        "due_at": None,
        "cron_job_id": None,
    }
    return TaskSettled(**fields | changes)


def test_a_failure_is_named_without_its_text() -> None:
    (line,) = World().settle(task(7, origin=Origin("order-7")))
    assert line == {
        "event": "an execution has failed",
        "log_level": "warning",
        "task_id": str(UUID(int=7)),
        "task_type": "mail",
        "attempt": 2,
        "tenant": "acme",
        "correlation_id": "order-7",
        "outcome": "failed",
        "error_type": "ValueError",
        "retry_at": None,
    }


def test_a_dead_letter_is_an_error_and_a_success_is_nothing() -> None:
    world = World()
    done = task(outcome=OutcomeKind.SUCCEEDED, state=State.COMPLETED, error=None)
    dead = task(2, state=State.DEAD, outcome=OutcomeKind.TIMED_OUT)
    (line,) = world.settle(done, dead)
    assert (line["event"], line["log_level"]) == ("a task became a dead letter", "error")
    assert world.settle(done) == []


def test_many_of_one_type_are_left_out_and_counted_and_others_are_not() -> None:
    world = World()
    lines = world.settle(*map(task, range(1000)), task(5000, task_type="rare"))
    assert [line["task_type"] for line in lines] == ["mail"] * int(BURST) + ["rare"]
    assert world.settle(task()) == []
    assert world.look() == []  # no line is left, not even to tell
    world.now = 1.0
    (told,) = world.look()
    assert (told["task_type"], told["executions"]) == ("mail", 1000 - int(BURST) + 1)
    world.now = 100.0
    assert world.look() == []
    assert len(world.settle(task())) == 1


def test_any_number_of_types_takes_bounded_memory() -> None:
    world = World()
    for number in range(3000):
        world.settle(*(task(n, task_type=f"t{number}") for n in range(int(BURST) + 1)))
    assert len(world.log._left_out) <= 1001
    world.now = 1000.0
    assert sum(line["executions"] for line in world.look()) == 3000


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("HTTP 503 Service Unavailable", "HTTP 503"),
        ("ValueError: 4111 1111", "ValueError"),
        ("app.errors.Declined: card", "app.errors.Declined"),
        ("KeyError", "KeyError"),
        ("did not end within 30 s", None),
        ("4111: x", None),
        ("", None),
        (None, None),
    ],
)
def test_the_type_of_an_error(error: str | None, kind: str | None) -> None:
    assert error_type(error) == kind
