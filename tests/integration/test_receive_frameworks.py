"""A real node calls real servers of each framework, which receive with the kit."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import msgspec
import pytest
from tests.commands import clean_environment
from tests.integration.nodes import SECRET, running_node
from tests.integration.support import Connection, database_now, end_of, store, submission, tries

from gnomon import receive
from gnomon.access.webhook_secret import Scheme, content_of, signer
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.targets.target import HttpTarget
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.retry import Backoff, RetryPolicy
from gnomon.model.tasks.task import TaskKey
from gnomon.store.postgres.database import Database

OTHER = "whsec_" + "QUJD" * 8
NEVER = RetryPolicy(max_retries=0)
ONCE = RetryPolicy(max_retries=1, backoff=Backoff.FIXED, base_seconds=0.0)
AGAIN = RetryPolicy(max_retries=3, backoff=Backoff.FIXED, base_seconds=0.0)
PATHS = {
    "fastapi": "orders/north",
    "flask": "orders/north",
    "django": "orders/north",
    "django-asgi": "async/north",
}


@contextmanager
def serving(kind: str, dsn: str) -> Iterator[str]:
    """The address of a receiver in a process of its own."""
    command = [sys.executable, "-m", "tests.integration.receivers", kind, dsn, str(os.getpid())]
    environment = clean_environment({"GNOMON_WEBHOOK_SECRETS": f"{OTHER} {SECRET}"})
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url, "the receiver did not start"
            yield f"{url}/{PATHS[kind]}"
        finally:
            process.kill()


class World:
    """A receiver with its own tables, and a node that calls it."""

    def __init__(self, kind: str, url: str, database: Database, connection: Connection) -> None:
        self.kind = kind
        self.url = url
        self._database = database
        self._connection = connection

    async def ended(
        self, wants: str, policy: RetryPolicy = NEVER, **target: Any
    ) -> tuple[TaskKey, asyncpg.Record]:
        """A task of this kind, once it has ended."""
        payload = msgspec.json.encode({"number": 7, "wants": wants})
        (key,) = await store(
            self._database,
            submission(
                await database_now(self._connection),
                target=HttpTarget(target.pop("url", self.url), "POST"),
                task_type="order placed",
                payload=target.pop("payload", payload),
                retry_policy=policy,
            ),
        )
        return key, await end_of(self._connection, key)

    async def forget(self) -> None:
        await self._connection.execute("TRUNCATE effect")

    async def effects(self) -> list[tuple[str, str]]:
        rows = await self._connection.fetch("SELECT shop, what FROM effect ORDER BY fence, what")
        return [(row["shop"], row["what"]) for row in rows]

    async def outcomes(self, key: TaskKey) -> list[tuple[OutcomeKind, int]]:
        rows = await tries(self._connection, key)
        return [(OutcomeKind(row["outcome"]), row["response_status"]) for row in rows]


@pytest.fixture(params=PATHS)
async def world(
    request: pytest.FixtureRequest,
    database_dsn: str,
    database: Database,
    connection: Connection,
) -> AsyncIterator[World]:
    await connection.execute(receive.ddl())
    await connection.execute("CREATE TABLE effect (fence bigint, shop text, what text)")
    with serving(request.param, database_dsn) as url:
        async with running_node(database_dsn):
            yield World(request.param, url, database, connection)


async def test_a_node_and_a_receiver_understand_each_other(world: World) -> None:
    """One test for each framework: its server takes long to start."""
    await a_receiver_says_what_becomes_of_a_task(world)
    await world.forget()
    await only_genuine_new_calls_are_worked_on(world)
    if world.kind in ("fastapi", "flask"):  # they admit calls before they work
        await world.forget()
        await a_call_that_was_overtaken_is_refused(world)
    if world.kind == "fastapi":
        await a_function_that_blocks_runs_in_a_thread(world)


async def a_receiver_says_what_becomes_of_a_task(world: World) -> None:
    done, row = await world.ended("nothing")
    assert row["state"] == State.COMPLETED
    assert msgspec.json.decode(row["response_body"]) == {"number": 7, "type": "order placed"}

    snoozed, row = await world.ended("a snooze")  # with no retry to use up
    assert row["state"] == State.COMPLETED
    retried, row = await world.ended("a retry", ONCE)
    assert row["state"] == State.COMPLETED
    # A server may close the connection after an error, while the next call begins on it.
    broken, row = await world.ended("an error", AGAIN)
    assert row["state"] == State.COMPLETED

    rejected, row = await world.ended("a rejection", ONCE)
    assert row["state"] == State.DEAD
    unfit, row = await world.ended("", ONCE, payload=b'{"number": "seven"}')
    assert row["state"] == State.DEAD

    succeeded = (OutcomeKind.SUCCEEDED, 200)
    assert await world.outcomes(done) == [succeeded]
    assert await world.outcomes(snoozed) == [(OutcomeKind.SNOOZED, 425), succeeded]
    assert await world.outcomes(retried) == [(OutcomeKind.FAILED, 503), succeeded]
    answered = [each for each in await world.outcomes(broken) if each[1] is not None]
    assert answered == [(OutcomeKind.FAILED, 500), succeeded]
    assert await world.outcomes(rejected) == [(OutcomeKind.FAILED, 422)]
    assert await world.outcomes(unfit) == [(OutcomeKind.FAILED, 422)]
    # What was written before a snooze, a failure or a rejection was rolled back.
    kinds = ["a retry", "a snooze", "an error", "nothing"]
    assert sorted(await world.effects()) == [("NORTH", each) for each in kinds]


async def only_genuine_new_calls_are_worked_on(world: World) -> None:
    task = str(uuid4())
    body = b'{"number": 7}'
    assert await said(world.url, task, 5, body, secret="whsec_" + "RUZH" * 8) == 401
    assert await said(world.url, task, 5, body, late=400) == 401
    assert await said(world.url, task, 5, body, sent=b'{"number": 8}') == 401
    assert await world.effects() == []
    together = await asyncio.gather(*(said(world.url, task, 5, body) for _ in range(4)))
    assert together == [200] * 4
    assert await said(world.url, task, 7, body) == 200
    assert await said(world.url, task, 3, body) == 200
    assert await world.effects() == [("NORTH", "nothing")]


async def a_call_that_was_overtaken_is_refused(world: World) -> None:
    task = str(uuid4())
    assert await said(world.url, task, 5, b'{"number": 7, "wants": "a rejection"}') == 422
    assert await said(world.url, task, 3, b'{"number": 7}') == 409
    assert await said(world.url, task, 7, b'{"number": 7}') == 200
    assert await world.effects() == [("NORTH", "nothing")]


async def a_function_that_blocks_runs_in_a_thread(world: World) -> None:
    url = world.url.replace("/orders/", "/blocking/")
    key, row = await world.ended("a snooze", url=url)
    assert row["state"] == State.COMPLETED
    assert [kind for kind, _ in await world.outcomes(key)] == [
        OutcomeKind.SNOOZED,
        OutcomeKind.SUCCEEDED,
    ]


async def said(
    url: str,
    task: str,
    fence: int,
    body: bytes,
    *,
    secret: str = SECRET,
    late: float = 0.0,
    sent: bytes | None = None,
) -> int:
    """The status that a call gets which a node, or somebody else, might have made."""
    timestamp = str(int(datetime.now(UTC).timestamp() - late))
    headers = {
        "webhook-id": task,
        "webhook-timestamp": timestamp,
        "webhook-signature": signer(Scheme.V1, secret)(content_of(task, timestamp, body)),
        "idempotency-key": task,
        "gnomon-tenant": "default",
        "gnomon-attempt": "2",
        "gnomon-fence": str(fence),
        "gnomon-scheduled-for": "2026-01-02T03:04:05Z",
    }
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        answer = await client.post(url, content=body if sent is None else sent, headers=headers)
    return answer.status_code
