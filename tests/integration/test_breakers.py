"""A dead endpoint: its breaker opens, its tasks wait unspent, and nobody else notices."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import asyncpg
import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port
from tests.conftest import serving
from tests.integration.api_calls import call
from tests.integration.identity import bearer, make_key, make_tenant
from tests.integration.nodes import call_of, running_node
from tests.integration.support import Connection, archived, database_now, store, submission
from tests.waiting import eventually

from gnomon.breakers.breaker import HOST_RULE, TENANT_RULE
from gnomon.model.insight.explanation import explain
from gnomon.model.targets.target import HttpTarget, PythonTarget
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import DEFAULT_TENANT, Submission, TaskKey
from gnomon.node.dispatch.breaker_check import BreakerRules
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.tasks import reading

A = DEFAULT_TENANT  # whose tasks may take all slots while it is the only tenant
SLOTS = 5
AHEAD = 150  # claimed before any of them is called
QUICK = BreakerRules(host=msgspec.structs.replace(HOST_RULE, pause=1.0))
# A retry comes soon, and there are few: if the outage spent them, the tasks would be dead letters.
POLICY = RetryPolicy(max_retries=2, base_seconds=0.05, max_seconds=0.05)
ONCE = RetryPolicy(max_retries=0)


@pytest.fixture
async def now(connection: Connection) -> datetime:
    return await database_now(connection)


class Endpoint:
    """A host that can be away."""

    def __init__(self) -> None:
        self.port = unused_port()
        self.calls = 0

    def tasks(self, now: datetime, count: int, tenant_id: str) -> list[Submission]:
        target = HttpTarget(f"http://127.0.0.1:{self.port}/hook")
        return [
            submission(now, tenant_id=tenant_id, target=target, retry_policy=POLICY)
            for _ in range(count)
        ]

    async def _answer(self, _: web.Request) -> web.Response:
        self.calls += 1
        return web.Response()

    @asynccontextmanager
    async def up(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_post("/hook", self._answer)
        async with TestServer(app, port=self.port):
            yield


async def all_completed(connection: Connection, keys: Sequence[TaskKey]) -> None:
    async def look() -> bool:
        rows = [await archived(connection, key) for key in keys]
        return all(row is not None and row["state"] == 10 for row in rows)

    await eventually(look)


async def events(connection: Connection, count: int) -> list[asyncpg.Record]:
    """So many events of breakers, once they are there."""

    async def look() -> list[asyncpg.Record] | None:
        rows = await connection.fetch(
            "SELECT * FROM gnomon.event"
            " WHERE kind IN ('breaker.opened', 'breaker.closed') ORDER BY id"
        )
        return rows if len(rows) >= count else None

    rows = await eventually(look)
    assert len(rows) == count
    return rows


async def opened(connection: Connection) -> asyncpg.Record:
    """The one breaker that is open."""
    return await eventually(lambda: connection.fetchrow("SELECT * FROM gnomon.breaker"))


async def attempts(connection: Connection) -> tuple[int, int]:
    """Tries in all, and those under way."""
    row = await connection.fetchrow(
        "SELECT sum(attempt) AS tries, count(*) FILTER (WHERE state = 1) AS running"
        " FROM gnomon.task"
    )
    assert row is not None
    return row["tries"] or 0, row["running"]


async def at_rest(connection: Connection) -> int:
    """The tries so far, once nothing runs."""

    async def look() -> tuple[int, int] | None:
        tries = await attempts(connection)
        return tries if tries[1] == 0 else None

    return (await eventually(look))[0]


async def test_a_dead_endpoint_holds_up_its_own_tasks_only(
    database_dsn: str, database: Database, connection: Connection, now: datetime
) -> None:
    dead, well = Endpoint(), Endpoint()
    many: dict[str, Any] = {"node_slots": SLOTS, "node_prefetch": AHEAD, "node_batch": 200}
    async with well.up(), running_node(database_dsn, rules=QUICK, **many):
        waiting = await store(database, *dead.tasks(now, 200, A))
        await opened(connection)
        others = await store(database, *well.tasks(now, 5, A), *well.tasks(now, 5, "b"))
        await all_completed(connection, others)

        # What had begun when it opened, and a probe a second.
        before = await at_rest(connection)
        assert 20 <= before <= 20 + SLOTS + 5
        row = await opened(connection)
        assert (row["tenant_id"], row["host"]) == (A, f"127.0.0.1:{dead.port}")
        told = explain(
            await reading.get(database, waiting[-1]),
            await reading.circumstances(database, waiting[-1]),
        )
        assert any(f"the breaker of host 127.0.0.1:{dead.port} is open" in f for f in told.facts)

        async def probed() -> bool:
            return (await attempts(connection))[0] >= before + 2

        await eventually(probed)
        assert (await attempts(connection))[0] <= before + 4, "one at a time"
        assert await connection.fetchval("SELECT count(*) FROM gnomon.task WHERE state = 4") == 0
        async with dead.up():
            await all_completed(connection, waiting)
        first, second = await events(connection, 2)
        assert (first["kind"], second["kind"]) == ("breaker.opened", "breaker.closed")
        detail = msgspec.json.decode(first["detail"])
        assert detail["host"] == f"127.0.0.1:{dead.port}"
        assert detail["calls"] == detail["failures"] == 20
        assert not await connection.fetch("SELECT * FROM gnomon.breaker")


async def test_a_node_that_dies_while_its_breaker_is_open_leaves_nothing_behind(
    database_dsn: str, database: Database, connection: Connection, now: datetime
) -> None:
    dead = Endpoint()
    waiting = await store(database, *dead.tasks(now, 60, "a"))
    slow = BreakerRules(host=msgspec.structs.replace(HOST_RULE, pause=600.0))
    async with running_node(database_dsn, rules=slow, node_name="first") as node:
        await opened(connection)
        await node.kill()
    facts = explain(
        await reading.get(database, waiting[-1]),
        await reading.circumstances(database, waiting[-1]),
    ).facts
    assert any("is open on first" in fact for fact in facts), "nobody has declared it dead"
    async with dead.up(), running_node(database_dsn, rules=slow):
        await all_completed(connection, waiting)

        async def forgotten() -> bool:
            return not await database.fetch("open_breakers", "a")

        await eventually(forgotten)


async def test_a_tenant_whose_tasks_all_fail_is_slowed_down(
    database_dsn: str, database: Database, connection: Connection, now: datetime
) -> None:
    rules = BreakerRules(tenant=msgspec.structs.replace(TENANT_RULE, lasting=0.0, pause=1.0))
    failing = [
        submission(now, tenant_id="a", target=PythonTarget("unknown"), retry_policy=ONCE)
        for _ in range(22)
    ]
    async with running_node(database_dsn, rules=rules):
        await store(database, *failing)
        row = await opened(connection)
        assert (row["tenant_id"], row["host"]) == ("a", None)
        good = [call_of(now, "echo", tenant_id=tenant)[1] for tenant in "aab"]
        keys = await store(database, *good)
        await all_completed(connection, keys[2:])
        assert await archived(connection, keys[0]) is None
        await all_completed(connection, keys)
    kinds = [row["kind"] for row in await connection.fetch("SELECT * FROM gnomon.event")]
    assert "breaker.closed" in kinds


async def test_the_breakers_of_a_tenant_are_listed_for_it_alone(
    database_dsn: str, database: Database, connection: Connection, now: datetime
) -> None:
    dead = Endpoint()
    await make_tenant(database, "other")
    _, mine = await make_key(database)
    _, theirs = await make_key(database, "other")
    slow = BreakerRules(host=msgspec.structs.replace(HOST_RULE, pause=600.0))
    async with (
        serving(database_dsn, auth_enabled=True) as api,
        running_node(
            database_dsn,
            rules=slow,
            node_name="first",
            node_slots=SLOTS,
            targets_allow=("127.0.0.0/8",),
        ),
    ):
        await store(database, *dead.tasks(now, 60, A))
        await opened(connection)
        await at_rest(connection)
        found = await call(api, "GET", "/api/v1/breakers", 200, headers=bearer(mine))
        (one,) = found["breakers"]
        assert (one["host"], one["state"]) == (f"127.0.0.1:{dead.port}", "open")
        assert (one["calls"], one["failures"], one["nodes"]) == (20, 20, ["first"])
        assert one["opened_at"] < one["next_try_at"]
        assert one["error"]
        assert one["waiting"] == {"count": 60, "capped": False}
        nothing = await call(api, "GET", "/api/v1/breakers", 200, headers=bearer(theirs))
        assert nothing == {"breakers": []}


async def test_a_breaker_that_an_older_node_has_stored_is_listed_with_what_is_known(
    database_dsn: str, database: Database, connection: Connection, now: datetime
) -> None:
    async with serving(database_dsn) as api, running_node(database_dsn, node_name="first"):
        await connection.execute(
            "INSERT INTO gnomon.breaker (tenant_id, host, node, until)"
            " SELECT 'default', h, incarnation, gnomon.now() - interval '1 s'"
            " FROM gnomon.node, unnest(ARRAY['a.test:443', NULL]) AS h"
        )
        everything, host = (await call(api, "GET", "/api/v1/breakers", 200))["breakers"]
        assert (everything["host"], host["host"]) == (None, "a.test:443")
        for each in (everything, host):
            assert each["state"] == "half_open"
            assert each["opened_at"] is each["calls"] is each["error"] is None
            assert each["waiting"] == {"count": 0, "capped": False}
