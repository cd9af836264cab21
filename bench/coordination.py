"""What a Redis beside PostgreSQL could save: each thing that it could do, done by both, and what
that is of the whole that users wait for."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from statistics import median
from typing import Any
from uuid import UUID, uuid4

import aiohttp
import asyncpg
from redis.asyncio import Redis
from rich.progress import Progress
from tests.brokers import ValkeyServer

from bench.stage import Stage
from gnomon.bench.arena import Arena
from gnomon.bench.results import Findings, Measure
from gnomon.model.targets.target import PythonTarget
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.roster import PostgresRoster

WARM = 100
DOCUMENT = b'{"task_id": "x", "status": "COMPLETED", "result": 1}' * 8
Act = Callable[[], Awaitable[Any]]
TITLES = {
    "lease": "renew a lease",
    "status": "read the status of a task",
    "key": "look up an idempotency key",
    "cron": "read the cron jobs that are due",
    "hint": "wake another process up",
}


async def run(stage: Stage, times: int, progress: Progress) -> Findings:
    findings = Findings()
    folder = stage.folder / "valkey"
    folder.mkdir()
    valkey = ValkeyServer(folder, kept=False)
    valkey.start()
    client = Redis.from_url(valkey.url)
    bar = progress.add_task("", total=2 * len(TITLES) + 2)
    try:
        async with stage.arena() as arena, AsyncExitStack() as stack:
            await arena.preload(PythonTarget("nothing"), 1_000)
            for name, acts in (await _acts(stack, arena, client)).items():
                for way, act in acts.items():
                    progress.update(bar, description=f"{TITLES[name]}, {way}")
                    took = await _timed(act, times)
                    title = f"{TITLES[name]}, {way}"
                    findings.add([Measure(f"{name}_{way}", title, took * 1000, "ms")])
                    progress.advance(bar)
            findings.add(await _whole(arena, times))
            progress.advance(bar, 2)
    finally:
        await client.aclose()
        valkey.kill()
    return findings


async def _acts(stack: AsyncExitStack, arena: Arena, client: "Redis") -> dict[str, dict[str, Act]]:
    database = Database(arena.dsn, 2)
    await database.open()
    stack.push_async_callback(database.close)
    roster, incarnation = PostgresRoster(database), uuid4()
    await roster.join(incarnation, "bench", 10, 60.0)
    task_id: UUID = await arena.connection.fetchval("SELECT id FROM gnomon.task LIMIT 1")
    await client.set("status", DOCUMENT)
    woken = _Woken(arena, client)
    await woken.listen()
    stack.push_async_callback(woken.close)

    async def key() -> None:
        await arena.connection.fetchrow(
            "SELECT answer FROM gnomon.idempotency WHERE tenant_id = 'default' AND key = 'k'"
        )

    async def due() -> None:
        await arena.connection.fetch(
            "SELECT id FROM gnomon.cron_job WHERE next_fire_at <= gnomon.now()"
        )

    return {
        "lease": {
            "postgresql": lambda: database.fetchrow("renew", incarnation, 10.0),
            "redis": lambda: client.set("lease", str(incarnation), px=10_000),
        },
        "status": {
            "postgresql": lambda: database.fetch("get_task", "default", task_id),
            "redis": lambda: client.get("status"),
        },
        "key": {
            "postgresql": key,
            "redis": lambda: client.set("key", DOCUMENT, nx=True, px=60_000),
        },
        "cron": {"postgresql": due, "redis": lambda: client.zrange("due", 0, 1, byscore=True)},
        "hint": {"postgresql": woken.by_notify, "redis": woken.by_publish},
    }


class _Woken:
    """One who waits for a hint of either kind."""

    def __init__(self, arena: Arena, client: "Redis") -> None:
        self._arena = arena
        self._client = client
        self._heard = asyncio.Event()
        self._subscribed = client.pubsub()

    async def listen(self) -> None:
        self._listener = await asyncpg.connect(self._arena.dsn)
        await self._listener.add_listener("bench", lambda *_: self._heard.set())
        await self._subscribed.subscribe("bench")
        self._reading = asyncio.ensure_future(self._read(self._subscribed))

    async def close(self) -> None:
        self._reading.cancel()
        await self._listener.close()

    async def _read(self, subscribed: Any) -> None:
        async for message in subscribed.listen():
            if message["type"] == "message":
                self._heard.set()

    async def by_notify(self) -> None:
        await self._arena.connection.execute("NOTIFY bench, 'x'")
        await self._wait()

    async def by_publish(self) -> None:
        await self._client.publish("bench", "x")
        await self._wait()

    async def _wait(self) -> None:
        await self._heard.wait()
        self._heard.clear()


async def _timed(act: Act, times: int) -> float:
    """The median of what it takes, one after the other, with nothing else going on."""
    took = []
    for turn in range(WARM + times):
        began = time.perf_counter()
        await act()
        if turn >= WARM:
            took.append(time.perf_counter() - began)
    return median(took)


async def _whole(arena: Arena, times: int) -> list[Measure]:
    """What users wait for, as it is: a status read and a submission with a key, over HTTP."""
    async with arena.api() as api, aiohttp.ClientSession(api.where) as session:
        body = {"task_type": "nothing", "payload": {"n": 1}, "delay_seconds": 3600}
        async with session.post("/api/v1/tasks", json=body) as answer:
            task_id = (await answer.json())["task_id"]

        async def read() -> None:
            async with session.get(f"/api/v1/tasks/{task_id}") as answer:
                await answer.read()

        async def submit() -> None:
            headers = {"Idempotency-Key": uuid4().hex}
            async with session.post("/api/v1/tasks", json=body, headers=headers) as answer:
                await answer.read()

        return [
            Measure(name, title, await _timed(act, times) * 1000, "ms")
            for name, title, act in (
                ("whole_status", "GET /tasks/{id}, answer p50", read),
                ("whole_submit", "POST /tasks with a key, answer p50", submit),
            )
        ]
