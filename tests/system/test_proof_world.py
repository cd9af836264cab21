"""Each fault of the proof harness takes effect, on real processes and a real PostgreSQL."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp
import asyncpg
import pytest
from proof.campaigns import points
from proof.campaigns.cluster import Server, Tmpfs
from proof.campaigns.history import Changed, Submitted
from proof.campaigns.proxy import Proxy
from proof.campaigns.tools import or_skip
from proof.campaigns.world import World
from proof.campaigns.world_options import Options
from tests.system.harness import eventually

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@asynccontextmanager
async def _connected(server: Server) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(server.dsn)
    try:
        yield connection
    finally:
        connection.terminate()


async def _insert(server: Server, number: int) -> None:
    async with _connected(server) as connection:
        await connection.execute("CREATE TABLE IF NOT EXISTS number (n int)")
        await connection.execute("INSERT INTO number VALUES ($1)", number)


async def _numbers(server: Server) -> list[int]:
    async with _connected(server) as connection:
        return [row["n"] for row in await connection.fetch("SELECT n FROM number ORDER BY n")]


# PostgreSQL


async def test_a_server_comes_back_at_its_address_with_all_that_was_committed(
    tmp_path: Path,
) -> None:
    server = Server(tmp_path / "postgres")
    await server.start()
    address = server.dsn
    try:
        for number, end in enumerate(
            (server.stop(), server.stop(immediate=True), server.kill()), start=1
        ):
            await _insert(server, number)
            await end
            assert not server.alive
            with pytest.raises(OSError):
                await asyncpg.connect(server.dsn)
            await server.start()
        assert await _numbers(server) == [1, 2, 3]
        assert server.dsn == address
    finally:
        await server.close()


async def _failed_over(folder: Path, *, synchronous: bool) -> list[int]:
    """What a promoted replica holds of 1, and of 2, which was written when nothing reached it."""
    primary = Server(folder / "primary")
    await primary.start()
    async with Proxy(("127.0.0.1", primary.port)) as between:
        replica = await primary.make_replica(
            folder / "replica", synchronous=synchronous, upstream=between.port
        )
        await _insert(primary, 1)
        await eventually(lambda: _has_replayed(primary))
        between.black_hole()
        if synchronous:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(_insert(primary, 2), 1.0)
        else:
            await _insert(primary, 2)
        await primary.kill()
        await replica.promote()
        try:
            await _insert(replica, 3)
            return await _numbers(replica)
        finally:
            await replica.close()
            await primary.close()


async def _has_replayed(primary: Server) -> bool:
    async with _connected(primary) as connection:
        return bool(
            await connection.fetchval(
                "SELECT replay_lsn = pg_current_wal_lsn() FROM pg_stat_replication"
            )
        )


async def test_a_synchronous_replica_has_all_that_was_acknowledged(tmp_path: Path) -> None:
    assert await _failed_over(tmp_path, synchronous=True) == [1, 3]  # 2 was not acknowledged


async def test_an_asynchronous_replica_can_lose_what_was_acknowledged(tmp_path: Path) -> None:
    assert await _failed_over(tmp_path, synchronous=False) == [1, 3]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Tmpfs]:
    with or_skip():
        disk = Tmpfs(tmp_path / "disk", 160)
        disk.__enter__()
    yield disk
    disk.__exit__()


async def test_a_full_disk_refuses_writes_until_there_is_space(small_disk: Tmpfs) -> None:
    server = Server(small_disk.folder, {"max_wal_size": "48MB", "min_wal_size": "32MB"})
    await server.start()
    try:
        await _insert(server, 1)
        assert small_disk.fill() > 0
        async with _connected(server) as connection:
            with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
                await connection.execute("CREATE TABLE big AS SELECT generate_series(1, 4000000)")
        small_disk.free()
        if not server.alive:
            await server.start()
        await eventually(lambda: _writes(server))
        assert 1 in await _numbers(server)
    finally:
        await server.close()


async def _writes(server: Server) -> bool:
    try:
        await _insert(server, 2)
    except (OSError, asyncpg.PostgresError):
        return False
    return True


# Processes


class Client:
    """Submits, and remembers nothing: it is a load of its own."""

    submitted: tuple[Submitted, ...] = ()
    changed: tuple[Changed, ...] = ()

    def __init__(self, world: World, session: aiohttp.ClientSession) -> None:
        self._world = world
        self._session = session

    async def submit(self, n: int, function: str | None = None, **fields: Any) -> int | None:
        """The status of the answer, or None where there was none."""
        target = {"type": "python", "function": function}
        if function is None:
            target = {"type": "http", "url": self._world.observer_url}
        body = {
            "task_type": function or "test",
            "payload": {"n": n, "seconds": 0.05, "fails": 0},
            "target": target,
            **fields,
        }
        try:
            async with self._session.post(
                f"{self._world.api_urls[0]}/api/v1/tasks", json=body
            ) as answer:
                return answer.status
        except aiohttp.ClientError:
            return None

    async def ask(self) -> int:
        async with self._session.get(f"{self._world.api_urls[0]}/healthz") as answer:
            return answer.status


@asynccontextmanager
async def _world(folder: Path, **options: Any) -> AsyncIterator[tuple[World, Client]]:
    async with (
        World(folder, Options(**options)) as world,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session,
    ):
        yield world, Client(world, session)


async def _settled(world: World) -> None:
    async def settled() -> bool:
        return await world.unsettled() == 0

    await eventually(settled)


async def _struck(world: World, name: str) -> None:
    async def dead() -> bool:
        return not world.alive(name)

    await eventually(dead, 30)
    assert not world.disarm(name)


async def test_the_processes_of_a_world_can_be_broken_and_come_back(tmp_path: Path) -> None:
    async with _world(tmp_path, nodes=1, downtime=0.5) as (world, client):
        assert await client.submit(1) == 202
        assert await client.submit(2, "effect", delivery="exactly_once") == 202
        await _settled(world)

        world.kill("node-1")
        assert not world.alive("node-1")
        await world.until_serving("node-1")  # the supervisor starts it

        world.pause("api-1")
        assert not world.serving("api-1")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.ask(), 1.0)
        world.go_on("api-1")
        assert await client.ask() == 200

        for n, point in ((10, "after_claim"), (11, "after_call")):
            world.crash_at("node-1", point)
            assert await client.submit(n) == 202
            await _struck(world, "node-1")
            await world.until_serving("node-1")
            await _settled(world)  # or it would come to the next point, too
        world.crash_at("api-1", "after_submit_commit")
        assert await client.submit(20) is None
        await _struck(world, "api-1")
        await world.until_serving("api-1")
        await _settled(world)
        world.crash_at("node-1", "before_plan")
        assert world.disarm("node-1")

        assert world.proxies["node-1"].cut() > 0
        await world.restart_postgres(immediate=True)
        await world.kill_postgres()
        history = await world.history(client)

    calls = {n: sum(call.n == n for call in history.calls) for n in (1, 2, 10, 11, 20)}
    assert calls == {1: 1, 2: 1, 10: 1, 11: 2, 20: 1}
    assert [effect.n for effect in history.effects] == [2]
    assert {final.n for final in history.finals} == {1, 2, 10, 11, 20}
    assert {final.state for final in history.finals} == {10}
    assert history.sightings == []
    assert world.audit.looks > 10
    killed = [death.process for death in world.deaths if death.code == -signal.SIGKILL]
    assert killed == ["node-1"] * 3 + ["api-1"]


async def test_a_world_fails_over_and_its_clocks_can_be_wrong(tmp_path: Path) -> None:
    with or_skip():
        async with _world(tmp_path, nodes=1, replica="synchronous", skews={"node-1": 300.0}) as (
            world,
            client,
        ):
            assert await client.submit(1) == 202
            await _settled(world)
            await world.failover()
            due = time.time() + 1.0
            assert await client.submit(2, "function", delay_seconds=1.0) == 202
            await _settled(world)
            history = await world.history(client)
            assert "LD_PRELOAD" in world.members["node-1"].extra

    assert {final.n for final in history.finals} == {1, 2}
    (call,) = (call for call in history.calls if call.n == 2)
    assert due - 0.05 <= call.began_at < due + 60  # by the clock of the harness


def test_a_point_is_armed_once_and_must_exist(tmp_path: Path) -> None:
    file = points.crash_file(tmp_path, "node-1")
    points.arm(file, "after_claim")
    assert points.disarm(file)
    assert not points.disarm(file)
    with pytest.raises(ValueError):
        points.arm(file, "after_lunch")
