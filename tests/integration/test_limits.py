"""Nodes that keep to limits: what runs at once, what starts within a time, and what is changed."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.test_utils import TestServer
from proof.limits.judge import most_within
from tests.integration.nodes import running_node
from tests.integration.support import (
    Connection,
    database_now,
    end_of,
    key_of,
    store,
    submission,
)
from tests.waiting import eventually

from gnomon.limits.limiter import Limiter, limit_keys
from gnomon.model.targets.target import HttpTarget
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import Submission
from gnomon.store.postgres.database import Database


class Watcher:
    """Takes webhooks, and counts how many of a kind are under way."""

    def __init__(self) -> None:
        self.url = ""
        self.seconds = 0.02
        self.under_way: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.starts: list[tuple[str, float]] = []
        self.done = 0
        self.hold: asyncio.Event | None = None  # where set: calls last until then

    async def receive(self, request: web.Request) -> web.Response:
        kinds = (await request.json())["kinds"]
        for kind in kinds:
            self.under_way[kind] += 1
            self.most[kind] = max(self.most[kind], self.under_way[kind])
            self.starts.append((kind, asyncio.get_running_loop().time()))
        try:
            await asyncio.sleep(self.seconds)
            if self.hold is not None:
                await self.hold.wait()
        finally:
            for kind in kinds:
                self.under_way[kind] -= 1
        self.done += 1
        return web.Response(text="ok")


@asynccontextmanager
async def watching() -> AsyncIterator[Watcher]:
    watcher = Watcher()
    app = web.Application()
    app.router.add_post("/", watcher.receive)
    async with TestServer(app) as server:
        watcher.url = str(server.make_url("/"))
        yield watcher


@asynccontextmanager
async def nodes(count: int, dsn: str, **settings: Any) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for number in range(count):
            node = running_node(dsn, node_name=f"node-{number}", **settings)
            await stack.enter_async_context(node)
        yield


async def limit(connection: Connection, name: str, **values: Any) -> Limiter:
    limiter = Limiter(tenant_id="default", name=name, **values)
    await connection.execute(
        "INSERT INTO gnomon.limiter (tenant_id, name, task_type, queue, key, concurrency, rate, "
        "per_seconds) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (tenant_id, name) "
        "DO UPDATE SET concurrency = excluded.concurrency, rate = excluded.rate",
        *msgspec.structs.astuple(limiter),
    )
    return limiter


async def tasks(
    connection: Connection,
    watcher: Watcher,
    count: int,
    kinds: list[str],
    limiters: tuple[Limiter, ...] = (),
    **values: Any,
) -> list[Submission]:
    now = await database_now(connection)
    payload = msgspec.json.encode({"kinds": kinds, **values.pop("payload", {})})
    task_type, queue = values.get("task_type", "test"), values.get("queue")
    values["limit_keys"] = limit_keys(limiters, task_type, queue, payload)
    target = HttpTarget(watcher.url)
    return [submission(now, target=target, payload=payload, **values) for _ in range(count)]


async def all_done(watcher: Watcher, count: int, within: float = 30.0) -> None:
    await eventually(lambda: _is(watcher.done >= count), within)


async def _is(value: bool) -> bool:
    return value


async def test_what_runs_at_once(
    database_dsn: str, database: Database, connection: Connection
) -> None:
    """Two nodes, four limiters that cross each other."""
    all_of_it = await limit(connection, "all", concurrency=6)
    of_type = await limit(connection, "slow", task_type="slow", concurrency=4)
    of_queue = await limit(connection, "lane", queue="narrow", concurrency=1)
    of_key = await limit(connection, "each", task_type="slow", key="/who", concurrency=2)
    limiters = (all_of_it, of_type, of_queue, of_key)
    async with watching() as watcher:
        made = []
        for who in "abc":
            made += await tasks(
                connection, watcher, 20, ["all", "slow", who], limiters,
                task_type="slow", payload={"who": who},
            )  # fmt: skip
        made += await tasks(connection, watcher, 20, ["all", "narrow"], limiters, queue="narrow")
        made += await tasks(connection, watcher, 20, ["all"], limiters)
        await store(database, *made)
        watcher.hold = asyncio.Event()
        async with nodes(2, database_dsn):
            # As many as may run at once do, wherever they are.
            await eventually(lambda: _is(watcher.under_way["all"] == 6))
            watcher.hold.set()
            await all_done(watcher, len(made))
    assert watcher.most["all"] == 6
    assert watcher.most["slow"] <= 4
    assert watcher.most["narrow"] == 1
    assert max(watcher.most[who] for who in "abc") <= 2


async def test_what_starts_within_a_time(
    database_dsn: str, database: Database, connection: Connection
) -> None:
    await limit(connection, "rate", task_type="fast", rate=20)
    async with watching() as watcher:
        watcher.seconds = 0.0
        made = await tasks(connection, watcher, 60, ["fast"], task_type="fast")
        free = await tasks(connection, watcher, 60, ["free"])
        await store(database, *made, *free)
        async with nodes(2, database_dsn):
            await eventually(lambda: _is(Counter(k for k, _ in watcher.starts)["free"] == 60))
            assert Counter(k for k, _ in watcher.starts)["fast"] <= 40, "the others did not wait"
            await all_done(watcher, 120)
    # By the time that the nodes called at, which is the database's as far as they know it: calls
    # are on their way for as long as the machine is busy.
    rows = await connection.fetch(
        "SELECT extract(epoch FROM started_at)::float8 AS at FROM gnomon.task_archive "
        "WHERE task_type = 'fast'"
    )
    assert most_within([row["at"] for row in rows], 0.95) <= 20


async def test_what_times_out_returns_its_permit(
    database_dsn: str, database: Database, connection: Connection
) -> None:
    await limit(connection, "one", concurrency=1)
    once = RetryPolicy(max_retries=0)
    async with watching() as watcher:
        watcher.hold = asyncio.Event()  # for ever
        made = await tasks(connection, watcher, 3, ["all"], timeout_seconds=0.2, retry_policy=once)
        await store(database, *made)
        async with nodes(1, database_dsn):
            for each in made:
                assert (await end_of(connection, key_of(each)))["state"] == State.DEAD
    assert (len(watcher.starts), watcher.most["all"]) == (3, 1)


async def test_executions_per_minute(
    database_dsn: str, database: Database, connection: Connection
) -> None:
    await connection.execute(
        """UPDATE gnomon.tenant SET quotas = '{"executions_per_minute": 5}' WHERE id = 'default'"""
    )
    async with watching() as watcher, nodes(2, database_dsn):
        await store(database, *await tasks(connection, watcher, 12, ["all"]))
        await all_done(watcher, 5)
        await connection.execute(
            """UPDATE gnomon.tenant SET quotas = '{"executions_per_minute": 8}'"""
        )
        await all_done(watcher, 8)
        assert watcher.done == 8
        await connection.execute("UPDATE gnomon.tenant SET quotas = '{}'")
        await all_done(watcher, 12)


async def test_a_limit_is_changed_while_it_is_used(
    database_dsn: str, database: Database, connection: Connection
) -> None:
    await limit(connection, "all", concurrency=2)
    async with watching() as watcher, nodes(2, database_dsn):
        watcher.hold = asyncio.Event()
        made = await tasks(connection, watcher, 30, ["all"])
        await store(database, *made)
        await eventually(lambda: _is(watcher.under_way["all"] == 2))
        await limit(connection, "all", concurrency=9)
        await eventually(lambda: _is(watcher.under_way["all"] == 9))
        await limit(connection, "all", concurrency=0)
        changed = await database_now(connection)
        await eventually(
            lambda: connection.fetchval(
                "SELECT bool_and(seen_at > $1) FROM gnomon.limit_lease WHERE permits > 0", changed
            )
        )
        watcher.hold.set()
        await eventually(lambda: _is(watcher.under_way["all"] == 0))
        assert watcher.done == 9
        await connection.execute("DELETE FROM gnomon.limiter")
        await all_done(watcher, 30)


async def test_one_permit_for_three_nodes(
    database_dsn: str, database: Database, connection: Connection
) -> None:
    """Each node has tasks of its own, and none of them starves."""
    await limit(connection, "one", concurrency=1)
    async with watching() as watcher, nodes(3, database_dsn, node_steal_seconds=60.0):
        await store(database, *await tasks(connection, watcher, 300, ["one"]))
        workers: Counter[str] = Counter()

        async def each_has_run() -> bool:
            rows = await connection.fetch("SELECT DISTINCT worker FROM gnomon.task_archive")
            workers.update(row["worker"] for row in rows)
            return len(workers) == 3

        await eventually(each_has_run, 15.0)
        assert watcher.most["one"] == 1
        await connection.execute("DELETE FROM gnomon.task WHERE state = 0")
