"""Public errors have one root, and can be copied and pickled: pools of processes do both."""

import copy
import pickle
from uuid import UUID

import pytest

import gnomon
from gnomon import (
    ApiUnreachable,
    ExecutionLost,
    GnomonError,
    InvalidArguments,
    InvalidOption,
    NotFound,
    NoTransaction,
    QuotaReached,
    Reject,
    ResultUnavailable,
    Retry,
    Snooze,
    Status,
    UnknownHandler,
    WaitTimeout,
)
from gnomon.client.errors import ProblemDocument
from gnomon.model.errors import QuotaExceeded

ID = UUID(int=7)
SIGNALS = {Reject, Retry, Snooze}


def test_every_public_error_is_a_gnomon_error() -> None:
    public = [getattr(gnomon, name) for name in gnomon.__all__]
    errors = {each for each in public if isinstance(each, type) and issubclass(each, Exception)}
    assert errors > SIGNALS
    assert [each for each in errors - SIGNALS if not issubclass(each, GnomonError)] == []


@pytest.mark.parametrize(
    "error",
    [
        ApiUnreachable("http://x", "connection refused", "start one"),
        NotFound(404, ProblemDocument(title="Not found", detail="no task")),
        QuotaReached(429, ProblemDocument(title="Too many", quota="tasks", limit=3.0), 2.0),
        WaitTimeout(ID, Status.RUNNING, 3.0),
        ResultUnavailable(ID, "it was deleted"),
        UnknownHandler("send", ["sent"]),
        InvalidArguments("send: argument to: no"),
        InvalidOption("send: delay=-1"),
        ExecutionLost(ID),
        NoTransaction(),
        QuotaExceeded("tasks", 3, 4, wait=5),
        Reject("no", 7),
        Retry("busy", after="1m"),
        Retry(),
        Snooze("10m"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_copy_says_and_holds_the_same(error: Exception) -> None:
    error.add_note("noted")
    for made in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error), copy.copy(error)):
        assert type(made) is type(error)
        assert (str(made), made.args) == (str(error), error.args)
        assert made.__dict__ == error.__dict__
