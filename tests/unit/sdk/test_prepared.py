"""Submissions are checked where they are made: arguments, options and times."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from gnomon import (
    Depends,
    Gnomon,
    InvalidArguments,
    InvalidOption,
    Prepared,
    Priority,
    RetryPolicy,
    TaskContext,
)

NINE = datetime(2030, 1, 31, 9, tzinfo=ZoneInfo("Europe/Berlin"))

app = Gnomon(url="http://127.0.0.1:9")


@app.task(retries=5, timeout="30s", priority="high", queue="mail", expiry="1d", tags=["a"])
async def send(user_id: str, template: str = "welcome") -> int:
    return len(user_id + template)


@app.task
def plain(number: int) -> int:
    return number + 1


# For calls that type checkers refuse.
any_send: Any = send
any_plain: Any = plain


def sent(prepared: Prepared[Any]) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(prepared.due_spec()))
    return document


def test_a_task_is_sent_with_its_arguments_and_what_the_handler_says() -> None:
    assert sent(send.prepare("u_1")) == {
        "task_type": "send",
        "payload": {"user_id": "u_1"},
        "priority": "HIGH",
        "retry_policy": {"max_retries": 5},
        "timeout_seconds": 30,
        "queue": "mail",
        "tags": ["a"],
    }
    assert sent(plain.prepare(number=1)) == {"task_type": "plain", "payload": {"number": 1}}


def test_options_come_before_what_the_handler_says() -> None:
    options = send.options(
        delay="10m",
        key="k",
        name="n",
        retries=RetryPolicy(max_retries=0, base_seconds=9),
        timeout=timedelta(minutes=1),
        priority=Priority.LOW,
        queue="q",
        tags=(),
    )
    document = sent(options.prepare(user_id="u_1", template="bye"))
    assert document == {
        "task_type": "send",
        "payload": {"user_id": "u_1", "template": "bye"},
        "delay_seconds": 600,
        "idempotency_key": "k",
        "name": "n",
        "retry_policy": {"max_retries": 0, "base_seconds": 9},
        "timeout_seconds": 60,
        "priority": "LOW",
        "queue": "q",
    }
    assert sent(send.options(at=NINE, expires=NINE).prepare("u"))["execute_at"] == NINE.isoformat()


def test_an_expiry_that_is_a_duration_is_counted_from_the_submission() -> None:
    prepared = plain.options(expires="1h").prepare(1)
    first, second = (
        datetime.fromisoformat(sent(prepared)["expires_at"]) - datetime.now(UTC) for _ in range(2)
    )
    assert timedelta(minutes=59) < first <= second + timedelta(seconds=1) <= timedelta(hours=2)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: any_send.submit(), "send: missing a required argument: 'user_id'"),
        (lambda: any_send.submit("u", usre="x"), "send: there is no argument usre"),
        (lambda: any_send.submit(nam="x"), "send: there is no argument nam"),
        (lambda: any_send.submit_sync(7), "send: argument user_id: Expected `str`, got `int`"),
        (lambda: any_plain.prepare("1"), "plain: argument number: Expected `int`, got `str`"),
        (lambda: any_plain.options(key="k").submit(object()), "plain: argument number: "),
    ],
)
def test_wrong_arguments_are_refused_by_the_call_itself(call: Callable[[], Any], told: str) -> None:
    with pytest.raises(InvalidArguments) as raised:
        call()
    assert str(raised.value).startswith(told)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"delay": "soon"}, "plain: delay= 'soon' is not a duration"),
        ({"delay": -1}, "plain: delay= -1 is not a duration"),
        ({"delay": 1, "at": NINE}, "plain: delay= and at= are two ways"),
        ({"at": NINE.replace(tzinfo=None)}, "plain: at=2030-01-31T09:00:00 has no time zone"),
        ({"at": "tomorrow"}, "plain: at='tomorrow': must be a datetime"),
        ({"expires": NINE.replace(tzinfo=None)}, "plain: expires=2030-01-31T09:00:00 has no"),
        ({"expires": "1h", "key": "k"}, "plain: expires= must be a time where key= is given"),
        ({"priority": "urgent"}, "plain: priority='urgent': must be one of 'critical'"),
        ({"retries": -1}, "plain: retries=-1: "),
        ({"tags": "a"}, "plain: tags='a': must be a list"),
        ({"timeout": 0}, "plain: timeout=0: must be between"),
        ({"key": 7}, "plain: key=7: must be a text"),
        ({"prioritty": "high"}, "plain: there is no option prioritty=; did you mean priority=?"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        plain.options(**options)
    assert str(raised.value).startswith(told)


def pool() -> str:
    return "pool"


def test_the_context_and_dependencies_are_not_submitted() -> None:
    @app.task
    async def report(ctx: TaskContext, day: str, *, db: str = Depends(pool)) -> None: ...

    assert sent(report.prepare("monday"))["payload"] == {"day": "monday"}
    with pytest.raises(InvalidArguments, match="there is no argument db"):
        report.prepare("monday", db="mine")
