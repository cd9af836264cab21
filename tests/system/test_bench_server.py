"""One run at a time has a server for its measures, and leaves nothing there."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeAlias

import asyncpg
import pytest
from tests.conftest import on_database
from tests.waiting import eventually

from gnomon.bench import submission, sustained
from gnomon.bench.results import BenchError
from gnomon.bench.server import DATABASE, BenchServer
from gnomon.bench.sizes import Sizes
from gnomon.model.errors import StatementRefused
from gnomon.store.embedded import EmbeddedServer

pytestmark = pytest.mark.system

Superuser: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@pytest.fixture
async def superuser(own_server: EmbeddedServer) -> AsyncIterator[Superuser]:
    connection = await asyncpg.connect(own_server.superuser_dsn)
    await connection.execute("ALTER ROLE gnomon CREATEDB CREATEROLE")
    yield connection
    await connection.close()


async def is_there(superuser: Superuser) -> bool:
    asked = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)"
    return bool(await superuser.fetchval(asked, DATABASE))


async def measured(server: BenchServer) -> None:
    async with server.reserved(), server.arena():
        pass


async def test_a_second_run_is_refused_also_from_another_database(
    own_server: EmbeddedServer, superuser: Superuser, tmp_path: Path
) -> None:
    await superuser.execute("CREATE DATABASE other OWNER gnomon")
    first = BenchServer(own_server.dsn, tmp_path)
    second = BenchServer(on_database(own_server.dsn, "other"), tmp_path)
    async with first.reserved():
        with pytest.raises(BenchError, match="another `gnomon bench` runs on this server"):
            await measured(second)
    async with second.reserved():
        pass


async def test_one_that_is_stopped_while_the_database_is_made_leaves_none(
    own_server: EmbeddedServer, superuser: Superuser, tmp_path: Path
) -> None:
    running = asyncio.create_task(measured(BenchServer(own_server.dsn, tmp_path)))
    making = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE 'CREATE DATABASE%')"

    async def is_made() -> bool:
        return bool(await superuser.fetchval(making))

    await eventually(is_made, 30.0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not await is_there(superuser)


async def test_the_role_that_it_made_is_dropped(
    own_server: EmbeddedServer, superuser: Superuser, tmp_path: Path
) -> None:
    there = "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'gnomon_tenant')"
    (tmp_path / "with").mkdir()
    await measured(BenchServer(own_server.dsn, tmp_path / "with"))
    assert await superuser.fetchval(there)
    owner = await asyncpg.connect(on_database(own_server.superuser_dsn, "gnomon"))
    await owner.execute("DROP OWNED BY gnomon_tenant; DROP ROLE gnomon_tenant")
    await owner.close()
    (tmp_path / "without").mkdir()
    await measured(BenchServer(own_server.dsn, tmp_path / "without"))
    assert not await superuser.fetchval(there)


async def test_a_role_that_may_only_create_databases_is_told_what_it_lacks(
    own_server: EmbeddedServer, superuser: Superuser, tmp_path: Path
) -> None:
    await superuser.execute("CREATE ROLE measurer LOGIN CREATEDB")
    dsn = own_server.dsn.replace("user=gnomon", "user=measurer")
    server = BenchServer(dsn, tmp_path)
    await server.check()
    assert await server.nodes() is None
    with pytest.raises(StatementRefused, match="Let an administrator run"):
        await measured(server)
    assert not await is_there(superuser)


@pytest.mark.parametrize("is_ours", [True, False])
async def test_only_a_server_of_ours_is_told_to_write_its_checkpoint(
    own_server: EmbeddedServer, superuser: Superuser, tmp_path: Path, is_ours: bool
) -> None:
    await superuser.execute("GRANT pg_checkpoint TO gnomon")
    server = BenchServer(own_server.dsn, tmp_path, is_ours=is_ours)
    async with server.reserved(), server.arena() as arena:
        last = "SELECT checkpoint_lsn FROM pg_control_checkpoint()"
        before = await superuser.fetchval(last)
        await arena.rest()
        assert (await superuser.fetchval(last) != before) == is_ours


@pytest.mark.usefixtures("superuser")
async def test_what_goes_by_time_is_bounded_in_tasks(
    own_server: EmbeddedServer, tmp_path: Path
) -> None:
    server = BenchServer(own_server.dsn, tmp_path)
    sizes = Sizes(seconds=60.0, most=2_000)
    async with server.reserved():
        _, submitted = await submission.measure(server, sizes)
        _, run = await sustained.measure(server, sizes)
    assert [tally.submitted for tally in (*submitted, *run)] == [2_000, 2_000, 2_000]
