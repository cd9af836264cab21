"""Nodes call nothing that a tenant is not allowed to call, however the task came to be there."""

from collections.abc import AsyncIterator
from datetime import datetime
from urllib.parse import urlsplit

import msgspec
import pytest
from aiohttp import web
from tests.integration import handlers
from tests.integration.nodes import Receiver, call_of, receiver_on, running_node, webhook
from tests.integration.support import Connection, database_now, end_of, key_of, store, tries
from tests.waiting import eventually

from gnomon.clock import SystemClock, new_id
from gnomon.model.targets.allow_list import AllowList
from gnomon.model.targets.target import HttpTarget
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import TaskKey
from gnomon.node.run.resolver import Found, Resolver
from gnomon.node.run.targets.allowed import AllowedCaller
from gnomon.node.run.targets.http import HttpCaller
from gnomon.sdk.executing.context import TaskContext
from gnomon.store.ports.tenancy.tenants import TenantChange
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.identity.tenant_reader import PostgresTenantReader
from gnomon.store.postgres.identity.tenants import PostgresTenants
from gnomon.store.tenant_cache import TenantCache
from gnomon.testing.contracts.pipe import a_delivery


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async def now() -> datetime:
        return SystemClock().now()

    async with receiver_on(now) as started:
        yield started


async def held_to(database: Database, *, functions: list[str], hosts: list[str]) -> None:
    allow = AllowList(tuple(functions), tuple(hosts))
    await PostgresTenants(database).change("default", TenantChange(allow=allow))


async def test_what_is_not_allowed_is_a_dead_letter_at_its_first_try(
    database_dsn: str, database: Database, connection: Connection, receiver: Receiver
) -> None:
    now = await database_now(connection)
    host = urlsplit(receiver.url).netloc
    await held_to(database, functions=["echo"], hosts=[host])
    policy = RetryPolicy(max_retries=3, base_seconds=0.01, jitter=False)
    fine = webhook(now, receiver)
    who, echoed = call_of(now, "echo")
    other_port = HttpTarget(f"http://127.0.0.1:{int(host.split(':')[1]) ^ 1}/")
    refused_host = msgspec.structs.replace(fine, id=new_id(now), target=other_port)
    wrong, refused_function = call_of(now, "echo_in_a_thread", retry_policy=policy)
    await store(database, fine, echoed, refused_host, refused_function)
    # By somebody who has never heard of the API.
    by_sql = TaskKey("default", new_id(now))
    await connection.execute(
        """INSERT INTO gnomon.task (tenant_id, id, task_type, target)
           VALUES ('default', $1, 'sql', '{"type": "python", "function": "echo_in_a_thread"}')""",
        by_sql.id,
    )
    async with running_node(database_dsn):
        for new in (fine, echoed):
            assert (await end_of(connection, key_of(new)))["last_error"] is None
        for key, allowed in (
            (key_of(refused_host), f"its tenant is only for the hosts: {host}"),
            (key_of(refused_function), "its tenant is only for the functions: echo"),
            (by_sql, "its tenant is only for the functions: echo"),
        ):
            dead = await end_of(connection, key)
            assert dead["state"] == 4, "a dead letter"
            assert dead["attempt"] == 1, "no retry can help"
            assert allowed in dead["last_error"]
            assert "it is not called" in dead["last_error"]
    assert len(receiver.calls) == 1
    assert handlers.calls[who]
    assert wrong not in handlers.calls
    assert len(await tries(connection, by_sql)) == 1


async def test_a_list_that_is_changed_is_followed(
    database_dsn: str, database: Database, connection: Connection, receiver: Receiver
) -> None:
    async with running_node(database_dsn):
        first = webhook(await database_now(connection), receiver)
        await store(database, first)
        assert (await end_of(connection, key_of(first)))["last_error"] is None
        await held_to(database, functions=[], hosts=["*.example.com"])

        async def is_refused() -> bool:
            new = webhook(await database_now(connection), receiver)
            await store(database, new)
            return (await end_of(connection, key_of(new)))["last_error"] is not None

        await eventually(is_refused)
        lifted = TenantChange(lifted=frozenset(["functions", "hosts"]))
        await PostgresTenants(database).change("default", lifted)

        async def is_called() -> bool:
            return not await is_refused()

        await eventually(is_called)


async def test_a_name_that_is_not_allowed_is_not_even_looked_up(
    database: Database, receiver: Receiver
) -> None:
    """Whoever looks a name up tells it to the servers of its domain."""
    asked: list[str] = []

    def look_up(name: str) -> list[Found]:
        asked.append(name)
        return [Found(2, 0, "127.0.0.1")]

    clock = SystemClock()
    await held_to(database, functions=[], hosts=["*.example.com"])
    directory = TenantCache(PostgresTenantReader(database), clock, {})
    await directory.load()
    port = urlsplit(receiver.url).port
    async with HttpCaller(clock, None, 10, names=Resolver(clock, look_up)) as http:
        caller = AllowedCaller(http, directory)
        for host, allowed in (("payload.evil.example", False), ("api.example.com", True)):
            target = HttpTarget(f"http://{host}:{port}/hook")
            delivery = msgspec.structs.replace(
                a_delivery(1), key=TaskKey("default", a_delivery(1).key.id), target=target
            )
            if (waiting := caller.ready(delivery)) is not None:
                await waiting
            outcome = await caller.call(delivery, b"{}", TaskContext(delivery))
            assert outcome is not None
            assert (outcome.error is None) == allowed
            if not allowed:
                assert not outcome.retryable
                assert outcome.uncalled
                assert not outcome.unreachable, "no fault of the host"
    assert asked == ["api.example.com"]


async def test_a_redirect_leads_nowhere(
    database_dsn: str, database: Database, connection: Connection, receiver: Receiver
) -> None:
    """An allowed host cannot send a call on to one that is not."""

    async def elsewhere(request: web.Request, _: int) -> web.StreamResponse:
        return web.Response(status=307, headers={"location": receiver.url + "/elsewhere"})

    receiver.answer = elsewhere
    await held_to(database, functions=[], hosts=["127.0.0.1"])
    new = webhook(await database_now(connection), receiver, retry_policy=RetryPolicy(max_retries=0))
    await store(database, new)
    async with running_node(database_dsn):
        assert "307" in (await end_of(connection, key_of(new)))["last_error"]
    assert len(receiver.calls) == 1
