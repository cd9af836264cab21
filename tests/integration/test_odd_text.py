"""Characters that cannot stand in a header, a URL or a line: refused when they come in, and
harmless where they came in before."""

import errno
import os
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest
from tests.integration.api_calls import BODY, TASKS, Api, call
from tests.integration.nodes import Receiver, receiver_on, running_node, webhook
from tests.integration.support import Connection, database_now, end_of, store, submission
from tests.unit.api.raw_server import called, calling

from gnomon.breakers.breaker import Rule
from gnomon.model.targets.target import HttpTarget, Target
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.node.dispatch.breaker_check import BreakerRules
from gnomon.store.postgres.database import Database

JOBS = "/api/v1/cron-jobs"
JOB = {"name": "j", "task_type": "t", "callback_url": "http://127.0.0.1:9/", "interval_seconds": 60}
CONTROLS = ["\0", "\x01", "\t", "\n", "\r", "\x1b[31m", "\x7f", "\x85", "\x9b", "\u2028"]
LONG = "http://127.0.0.1:9/" + "x" * 5000
# Any failure that is counted opens them at once, for the rest of the test.
TOUCHY = BreakerRules(host=Rule(share=0.0, calls=1, pause=60.0), tenant=Rule(share=0.0, calls=1))
AT_ONCE = RetryPolicy(max_retries=3, base_seconds=0.0)


def python(function: str) -> dict[str, Any]:
    return {"target": {"type": "python", "function": function}}


@pytest.fixture
async def now(connection: Connection) -> datetime:
    return await database_now(connection)


@pytest.fixture
async def receiver(database: Database) -> AsyncIterator[Receiver]:
    async def clock() -> datetime:
        async with database.connection() as connection:
            at: datetime = await connection.fetchval("SELECT clock_timestamp()")
            return at

    async with receiver_on(clock) as opened:
        yield opened


@pytest.mark.parametrize("control", CONTROLS)
async def test_a_line_with_control_characters_is_refused(
    api: Api, connection: Connection, control: str
) -> None:
    text = f"a{control}b"
    typed = {"task_type": "t"}
    tasks = [
        (BODY | {"idempotency_key": text}, "/idempotency_key"),
        (BODY | {"name": text}, "/name"),
        (BODY | {"task_type": text}, "/task_type"),
        (BODY | {"queue": text}, "/queue"),
        (BODY | {"tags": ["fine", text]}, "/tags/1"),
        (BODY | {"callback_url": f"http://127.0.0.1:9/{text}"}, "/callback_url"),
        (BODY | {"callback_url": f"http://{text}:9/"}, "/callback_url"),
        (BODY | {"callback_method": text}, "/callback_method"),
        (typed | python(text), "/target/function"),
    ]
    if control not in "\t\x85\x9b\u2028":  # in a header these are characters like others
        target = {"type": "http", "url": "http://127.0.0.1:9/", "headers": {"x-a": text}}
        tasks.append((typed | {"target": target}, "/target/headers"))
    for body, pointer in tasks:
        problem = await call(api, "POST", TASKS, 422, body)
        assert problem["errors"][0]["pointer"] == pointer, problem
        problem = await call(api, "POST", f"{TASKS}/batch", 422, {"tasks": [BODY, body]})
        assert problem["errors"][0]["pointer"] == f"/tasks/1{pointer}", problem
    for field, pointer in (("name", "/name"), ("source", "/source"), ("queue", "/queue")):
        problem = await call(api, "POST", JOBS, 422, JOB | {field: text})
        assert problem["errors"][0]["pointer"] == pointer, problem
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task") == 0
    assert await connection.fetchval("SELECT count(*) FROM gnomon.cron_job") == 0


async def test_an_idempotency_key_arrives_as_it_was_given(api: Api) -> None:
    for key in (" a", "a ", "a\u00a0b", "a\u200bb"):
        problem = await call(api, "POST", TASKS, 422, BODY | {"idempotency_key": key})
        assert "printable" in problem["detail"]
    for key in ("a b", "Bestellung-ä", '"'):
        await call(api, "POST", TASKS, 202, BODY | {"idempotency_key": key})


async def test_the_reason_of_a_pause_may_have_lines_but_not_escapes(api: Api) -> None:
    await call(api, "POST", JOBS, 201, JOB)
    await call(api, "POST", f"{JOBS}/j/pause", 200, {"reason": "one\n\ttwo"})
    problem = await call(api, "POST", f"{JOBS}/j/pause", 422, {"reason": "\x1b[2J"})
    assert problem["errors"][0]["pointer"] == "/reason"
    await call(api, "PATCH", f"{JOBS}/j", 422, {"paused": True, "pause_reason": "\x07"})


async def test_a_long_url_is_refused_in_its_short_form_too(api: Api) -> None:
    problem = await call(api, "POST", TASKS, 422, BODY | {"callback_url": LONG})
    assert "4096" in problem["detail"]


OLD_TARGETS: list[tuple[Target, str]] = [
    (HttpTarget(LONG), "4096"),
    (HttpTarget("http://a..b/"), "a..b"),
    (HttpTarget("http://a:99999/"), "cannot be read"),
    (HttpTarget("http://[::1/"), "cannot be read"),
    (HttpTarget("http://a\\b/"), "host"),
    (HttpTarget("http://127.0.0.1:9/", headers={"x-a": "1\x01"}), "x-a"),
    (HttpTarget("http://127.0.0.1:9/", "BREW"), "method"),
]


async def test_what_came_in_before_is_a_dead_letter_that_says_why_and_no_fault_of_the_host(
    database_dsn: str,
    database: Database,
    connection: Connection,
    receiver: Receiver,
    now: datetime,
) -> None:
    bad_keys = [
        webhook(now, receiver, idempotency_key=f"{n}\nx", retry_policy=AT_ONCE) for n in range(25)
    ]
    bad_targets = [submission(now, target=target) for target, _ in OLD_TARGETS]
    async with running_node(database_dsn, rules=TOUCHY, targets_connections_per_host=5):
        for key in await store(database, *bad_keys):
            row = await end_of(connection, key)
            assert (row["state"], row["attempt"]) == (State.DEAD, 1)
            assert "idempotency_key holds control characters" in row["last_error"]
        keys = await store(database, *bad_targets)
        for key, (_, words) in zip(keys, OLD_TARGETS, strict=True):
            row = await end_of(connection, key)
            assert (row["state"], row["attempt"]) == (State.DEAD, 1)
            assert "it cannot be called" in row["last_error"]
            assert words in row["last_error"]
        # No breaker has counted any of that: what is in order is called at once.
        (key,) = await store(database, webhook(now, receiver))
        assert (await end_of(connection, key))["state"] == State.COMPLETED
    assert len(receiver.calls) == 1
    told = await connection.fetch("SELECT kind FROM gnomon.event")
    assert not [row for row in told if row["kind"].startswith("breaker.")]


@contextmanager
def no_more_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_machine_that_is_short_of_files_does_not_blame_the_host(receiver: Receiver) -> None:
    async with calling() as caller:
        with no_more_files():
            outcome = await called(caller, receiver.url)
        assert os.strerror(errno.EMFILE) in (outcome.error or "")
        assert outcome.uncalled
        assert not outcome.unreachable
        assert outcome.retryable
        assert (await called(caller, receiver.url)).response_status == 200
