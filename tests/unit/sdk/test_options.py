"""Options of handlers: read as people write them, and refused where they are declared."""

from datetime import timedelta
from functools import wraps
from typing import Any

import msgspec
import pytest
from tests.unit.sdk.claimed import executed

from gnomon.model.duration import seconds_of
from gnomon.model.tasks.priority import Priority
from gnomon.model.tasks.retry import Backoff, RetryPolicy
from gnomon.model.tasks.task import DeliveryMode, KeepPayload
from gnomon.sdk.app import Gnomon
from gnomon.sdk.declaring import options
from gnomon.sdk.declaring.handler import Runs
from gnomon.sdk.declaring.options import TaskDefaults
from gnomon.sdk.errors import InvalidHandler
from gnomon.usecases.checks import request_fields


def test_options_are_what_the_tasks_start_with() -> None:
    app = Gnomon()

    @app.task(
        retries=5,
        timeout="30s",
        expiry=timedelta(days=1),
        priority="high",
        queue="mail",
        jitter="2m",
        delivery="at_least_once",
        tags=["a", "b"],
        preemptible=True,
        keep_payload="failed",
    )
    async def send(to: str) -> None: ...

    assert send.defaults == TaskDefaults(
        retry_policy=RetryPolicy(max_retries=5),
        timeout_seconds=30.0,
        expires_after_seconds=86400.0,
        priority=Priority.HIGH,
        queue="mail",
        jitter_seconds=120.0,
        delivery=DeliveryMode.AT_LEAST_ONCE,
        tags=("a", "b"),
        preemptible=True,
        keep_payload=KeepPayload.FAILED,
    )


def test_a_handler_without_options_leaves_everything_to_the_server() -> None:
    app = Gnomon()

    @app.task()
    async def plain() -> None: ...

    assert msgspec.to_builtins(plain.defaults) == {}


def test_a_retry_policy_and_enums_are_taken_as_they_are() -> None:
    policy = RetryPolicy(max_retries=2, backoff=Backoff.FIXED, base_seconds=5)
    app = Gnomon()

    @app.task(retries=policy, priority=Priority.LOW, delivery=DeliveryMode.EXACTLY_ONCE)
    async def send() -> None: ...

    assert send.defaults.retry_policy == policy
    assert send.defaults.priority is Priority.LOW
    assert send.defaults.delivery is DeliveryMode.EXACTLY_ONCE


async def test_a_name_and_aliases_take_the_place_of_the_functions_name() -> None:
    app = Gnomon()

    @app.task(name="mail.send", aliases=["send_mail", "sendmail"], process=True)
    def send() -> int:
        return 1

    assert set(app.handlers) == {"mail.send", "send_mail", "sendmail"}
    assert send.runs is Runs.PROCESS
    assert await executed(app, "sendmail") == 1
    with pytest.raises(InvalidHandler, match="two handlers are called 'sendmail'"):
        app.task(name="other", aliases=["sendmail"])(test_it_is_not_declared_by_halves)
    assert "other" not in app.handlers


def test_it_is_not_declared_by_halves() -> None:
    app = Gnomon()
    with pytest.raises(InvalidHandler):
        app.task(retries=-1)(lambda: None)
    assert app.handlers == {}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"retries": -1}, "retries=-1: Expected `int` >= 0"),
        ({"retries": 1001}, "retries=1001: Expected `int` <= 1000"),
        ({"retries": True}, "retries=True: must be how often to try again, or a RetryPolicy"),
        ({"retries": RetryPolicy(base_seconds=-1)}, r"retries=.*Expected `float` >= 0"),
        ({"timeout": "soon"}, "timeout='soon': 'soon' is not a duration like 90, 90s, 5m"),
        ({"timeout": 0}, r"timeout=0: must be between 0.001 s and 86400 s"),
        ({"timeout": "25h"}, "timeout='25h': must be between"),
        ({"timeout": True}, "timeout=True: True is not a duration"),
        ({"timeout": float("nan")}, "timeout=nan: nan is not a duration"),
        ({"expiry": -5}, "expiry=-5: -5 is not a duration"),
        ({"priority": "urgent"}, "priority='urgent': must be one of 'critical', 'high'"),
        ({"priority": 1}, "priority=1: must be one of"),
        ({"queue": ""}, "queue='': Expected `str` of length >= 1"),
        ({"tags": "billing"}, r"tags='billing': must be a list"),
        ({"tags": [1]}, "tags=.1.: Expected `str`"),
        ({"delivery": "once"}, "delivery='once': must be one of 'at_least_once'"),
        ({"preemptible": "yes"}, "preemptible='yes': must be True or False"),
        ({"process": 1}, "process=1: must be True or False"),
        ({"delivery": "at_most_once", "retries": 3}, "retries: must be 0: a task that is"),
        ({"delivery": "at_most_once", "preemptible": True}, "preemptible: a task that"),
        ({"retry": 3}, "there is no option retry=; did you mean retries="),
        ({"colour": 3}, "there is no option colour=; there are retries, timeout"),
        ({"name": ""}, "a handler cannot be called '': it must have 1 to 200 characters"),
        ({"name": "a\nb"}, "it must not contain control characters"),
        ({"name": 7}, "a handler cannot be called 7: it must be a text"),
        ({"aliases": "old"}, "aliases='old': give a list of names"),
    ],
)
def test_a_wrong_option_is_named_with_what_would_be_right(given: Any, told: str) -> None:
    async def send() -> None: ...

    with pytest.raises(InvalidHandler, match=told):
        Gnomon().task(**given)(send)


def test_the_limits_are_those_of_the_api() -> None:
    def meta(annotated: Any) -> msgspec.Meta:
        found = annotated.__metadata__[0]
        assert isinstance(found, msgspec.Meta)
        return found

    assert meta(request_fields.Timeout).le == options.LONGEST_TIMEOUT
    assert meta(request_fields.Queue).max_length == options.MOST_QUEUE_CHARACTERS
    assert meta(request_fields.Tag).max_length == options.MOST_TAG_CHARACTERS
    assert meta(request_fields.Tags).max_length == options.MOST_TAGS
    assert meta(request_fields.Delay).le == options.LONGEST_EXPIRY


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (90, 90),
        (0.5, 0.5),
        ("90", 90),
        ("1h30m", 5400),
        ("250ms", 0.25),
        (timedelta(days=2), 172800),
    ],
)
def test_durations(written: Any, seconds: float) -> None:
    assert seconds_of(written) == seconds


class Mailer:
    def send(self, to: str) -> str:
        return f"to {to}"

    @staticmethod
    def fixed(to: str) -> str:
        return to


def _numbers() -> Any:
    yield 1


async def _async_numbers() -> Any:
    yield 1


def _any(*values: int) -> None: ...


def _named(**values: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (Mailer.send, r"Mailer.send \(.*test_options.py:\d+\) is a method, and no task has an obj"),
        (Mailer.__dict__["fixed"], "a handler cannot belong to a class"),
        (_numbers, "_numbers .* is a generator: a handler returns its result once"),
        (_async_numbers, "is a generator"),
        (_any, r"takes \*values, but a payload names its arguments"),
        (_named, r"takes \*\*values, but a payload names its arguments"),
        (lambda: None, r"a lambda \(.*\) has no name: use def, or name="),
        (7, "7 is no function"),
        (Mailer, "is no function"),
    ],
)
def test_what_cannot_be_a_handler_is_refused_with_the_reason(function: Any, told: str) -> None:
    with pytest.raises(InvalidHandler, match=told):
        Gnomon().task(function)


def test_a_handler_is_not_declared_twice() -> None:
    app = Gnomon()

    @app.task
    async def once() -> None: ...

    with pytest.raises(InvalidHandler, match=r"once \(.*\) is a handler already"):
        app.task(once)


async def test_a_bound_method_and_a_named_lambda_can_be_handlers() -> None:
    app = Gnomon()
    app.task(Mailer().send)
    app.task(name="double")(lambda payload: payload * 2)
    assert await executed(app, "send", b'{"to":"ada"}') == "to ada"
    assert await executed(app, "double", b"4") == 8


async def test_a_decorated_function_is_run_as_what_it_wraps() -> None:
    app = Gnomon()

    def shouting(function: Any) -> Any:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return call

    @app.task
    @shouting
    async def greet(name: str) -> str:
        return f"hello {name}"

    assert greet.runs is Runs.LOOP
    assert await executed(app, "greet", b'{"name":"ada"}') == "hello ada"


async def test_a_function_that_forgets_to_await_fails_with_the_reason() -> None:
    app = Gnomon()

    async def work() -> None: ...

    @app.task
    def forgot() -> Any:
        return work()

    with pytest.raises(TypeError, match="forgot returned a coroutine: declare it with async def"):
        await executed(app, "forgot")
