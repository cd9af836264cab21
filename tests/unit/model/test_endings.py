"""How a task ended, in words, and what to do about a dead letter."""

import pytest
from tests.unit.model.test_explanation import a_task

from gnomon.model.outcomes.endings import ending, ending_facts, remedies
from gnomon.model.tasks.execution import Execution
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import Resolution

TRACEBACK = """Traceback (most recent call last):
  File "/app/shop.py", line 7, in charge
    return pay(order)
  File "/app/pay.py", line 3, in pay
    return 1 / 0
ZeroDivisionError: division by zero
"""


def failed(attempt: int, outcome: str = "failed", traceback: str | None = None) -> Execution:
    return Execution(
        attempt=attempt, outcome=outcome, worker="w", started_at=None, finished_at=None,
        error="broken", response_status=None, response_body=None, result=None, traceback=traceback,
    )  # fmt: skip


def test_a_dead_letter_says_what_failed_how_often_where_and_what_to_do() -> None:
    task = a_task(Status.DEAD_LETTERED, attempt=4, last_error="ZeroDivisionError: division by zero")
    tries = [failed(1), failed(2, "lost"), failed(3, traceback=TRACEBACK), failed(4)]
    assert ending(task) == (
        "It failed 4 times, and is not retried by itself any more; "
        "the last error is: ZeroDivisionError: division by zero"
    )
    counts, place = ending_facts(task, tries)
    advice = list(remedies(task))
    assert counts == "last executions: 3 failed, 1 lost"
    assert 'File "/app/pay.py", line 3, in pay' in place
    assert [each.partition(":")[0] for each in advice] == [
        "to run it again as it is", "to change it", "to be done with it",
    ]  # fmt: skip
    assert f"gnomon dead retry {task.task_id}" in advice[0]


def test_an_error_that_is_not_retried_is_told_apart() -> None:
    task = a_task(Status.DEAD_LETTERED, retry_policy=RetryPolicy(max_retries=3))
    assert any("a retry cannot help" in each for each in ending_facts(task, [failed(1)]))
    spent = a_task(Status.DEAD_LETTERED, retry_policy=RetryPolicy(max_retries=0))
    assert not any("a retry cannot help" in each for each in ending_facts(spent, [failed(1)]))


@pytest.mark.parametrize(
    ("status", "fields", "told"),
    [
        (Status.COMPLETED, {"attempt": 1}, "It has completed, at the first attempt."),
        (Status.COMPLETED, {"attempt": 3}, "It has completed, at attempt 3."),
        (Status.CANCELLED, {"attempt": 0}, "It was cancelled before it ran."),
        (Status.EXPIRED, {}, "It expired: it had not started in time."),
        (
            Status.DEAD_LETTERED,
            {"resolution": Resolution.ARCHIVED},
            "It was a dead letter, and was archived.",
        ),
        (
            Status.DEAD_LETTERED,
            {"resolution": Resolution.DISCARDED},
            "It was a dead letter, and was discarded.",
        ),
    ],
)
def test_other_endings(status: Status, fields: dict[str, object], told: str) -> None:
    task = a_task(status, **fields)
    assert ending(task) == told
    assert [*ending_facts(task, []), *remedies(task)] == []
