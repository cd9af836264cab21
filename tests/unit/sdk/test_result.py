"""What becomes of waiting for a result, without I/O: the answers are given by hand."""

from typing import Any
from uuid import UUID

import msgspec
import pytest

from gnomon import Reject, ResultUnavailable, TaskFailed
from gnomon.client.exchange import Reply, Rules, Sending
from gnomon.sdk.executing.context import stored_result
from gnomon.sdk.submitting.handle import _result

ID = UUID(int=7)
RULES = Rules("http://x", 0, lambda: 0.5, lambda: 0.0)


def task(status: str, **fields: Any) -> Reply:
    document = {
        "task_id": str(ID),
        "task_type": "send",
        "status": status,
        "target": {"type": "python", "function": "send"},
        "priority": "MEDIUM",
        "delivery": "at_least_once",
        "retry_policy": {},
        "timeout_seconds": 30,
        "tags": [],
        "preemptible": False,
        "keep_payload": "always",
        "execute_at": "2030-01-01T00:00:00Z",
        "created_at": "2030-01-01T00:00:00Z",
        "attempt": 1,
        "cancel_requested": False,
        "payload_kept": True,
        **dict.fromkeys(("queue", "name", "payload", "expires_at", "created_by", "started_at")),
        **dict.fromkeys(("finished_at", "next_retry_at", "last_error", "result", "resolution")),
        **dict.fromkeys(("cron_job_id", "retry_of", "idempotency_key")),
        **fields,
    }
    return Reply(200, "OK", msgspec.json.encode(document))


def result_of(*replies: Reply) -> Any:
    steps = _result(ID, None, msgspec.json.decode, RULES)
    next(steps)
    try:
        for reply in replies:
            steps.send(reply)
    except StopIteration as done:
        return done.value
    raise AssertionError("it asks for more")


def execution(attempt: int, traceback: str | None) -> dict[str, Any]:
    return {
        "attempt": attempt,
        "outcome": "failed",
        "traceback": traceback,
        "started_at": "2030-01-01T00:00:00Z",
        "finished_at": "2030-01-01T00:00:00Z",
        **dict.fromkeys(("worker", "error", "response_status", "response_body", "result")),
    }


def test_a_failure_comes_with_its_traceback_in_one_answer() -> None:
    tried = [execution(1, "at line 1"), execution(2, "at line 2"), execution(3, None)]
    failed = task("DEAD_LETTERED", last_error="ValueError: no", executions=tried)
    with pytest.raises(TaskFailed, match="is DEAD_LETTERED: ValueError: no") as raised:
        result_of(failed)
    assert raised.value.traceback == "at line 2"


def test_every_read_asks_for_the_failure() -> None:
    steps = _result(ID, None, msgspec.json.decode, RULES)
    first = next(steps)
    second = steps.send(task("RUNNING"))
    assert isinstance(first, Sending)
    assert isinstance(second, Sending)
    assert first.location.endswith("?include=failure")
    assert second.location.endswith("&include=failure")


@pytest.mark.parametrize("kept", [object(), Reject, "x" * 70_000])
def test_a_result_that_could_not_be_kept_is_told_from_one_that_looks_like_it(kept: Any) -> None:
    note = msgspec.json.decode(stored_result(kept))
    with pytest.raises(ResultUnavailable):
        result_of(task("COMPLETED", result=note))
    own = {"gnomon": "the result is fine"}
    assert result_of(task("COMPLETED", result=own)) == own
