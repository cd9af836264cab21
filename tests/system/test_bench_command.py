"""`gnomon bench` measures on somebody's server, and leaves nothing there, however it ends. Whether
the figures are good is not asked here: tests share their machine."""

import json
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
from tests.commands import Running, running
from tests.conftest import on_database
from tests.terminal import in_terminal
from tests.waiting import eventually

from gnomon.bench.server import DATABASE
from gnomon.store.embedded import EmbeddedServer

SECONDS = 300.0
MEASURES = {
    *("submit_single_rate", "submit_single_p50", "submit_single_p99"),
    *("submit_batch_rate", "submit_batch_p99"),
    *("drain_rate", "drain_rate_with_start", "drain_rate_steady"),
    *("idle_p50", "idle_p99", "idle_request_p50", "idle_request_p99"),
    *("herd_p50", "herd_p99", "herd_max", "herd_early"),
    *("large_herd_p50", "large_herd_p99", "large_herd_max", "large_herd_early"),
    *("sustained_rate", "sustained_submit_rate", "sustained_backlog"),
}
LONG = ("bench", "--only", "sustained", "--seconds", "120")
SHORT = ("bench", "--only", "drain", "--tasks", "50")

pytestmark = [pytest.mark.system, pytest.mark.timeout(SECONDS + 60)]


@pytest.fixture
async def server(own_server: EmbeddedServer) -> EmbeddedServer:
    """One whose role may create databases."""
    async with connected(own_server) as connection:
        await connection.execute("ALTER ROLE gnomon CREATEDB")
    return own_server


@asynccontextmanager
async def connected(server: EmbeddedServer) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    connection = await asyncpg.connect(server.superuser_dsn)
    try:
        yield connection
    finally:
        await connection.close()


def environment(server: EmbeddedServer) -> Mapping[str, str]:
    return {"DATABASE_URL": server.dsn}


async def is_there(server: EmbeddedServer) -> bool:
    async with connected(server) as connection:
        found = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)"
        return bool(await connection.fetchval(found, DATABASE))


async def in_the_middle(server: EmbeddedServer, command: Running) -> None:
    """Wait until tasks are stored in the database for measures."""

    async def has_tasks() -> bool:
        assert command.process.poll() is None, command.errors
        if not await is_there(server):
            return False
        try:
            connection = await asyncpg.connect(on_database(server.dsn, DATABASE))
        except asyncpg.PostgresError:
            return False
        try:
            return bool(await connection.fetchval("SELECT EXISTS (SELECT FROM gnomon.task)"))
        except asyncpg.PostgresError:  # the schema is being made
            return False
        finally:
            await connection.close()

    await eventually(has_tasks, SECONDS)


def ended(command: Running) -> int:
    return command.process.wait(SECONDS)


def bench(server: EmbeddedServer, folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Run it to its end."""
    with running(*arguments, cwd=folder, env=environment(server)) as command:
        code = ended(command)
        lines = [line for line in iter(command._lines.get, None) if line is not None]
        return code, "\n".join(lines), command.errors


async def test_every_measure_is_made_and_nothing_is_left(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    small = ("--tasks", "300", "--seconds", "0.5", "--json")
    code, out, err = bench(server, tmp_path, "bench", *small)
    assert code == 0, err
    found = json.loads(out)
    values = {measure["name"]: measure["value"] for measure in found["measures"]}
    assert values.keys() == MEASURES
    assert None not in values.values()
    for tally in found["tasks"]:
        assert tally["submitted"] == tally["completed"] > 0
        assert tally["early"] == tally["repeated"] == 0
    assert {"cores", "postgresql"} <= found["machine"].keys()
    assert [json.loads(line)["note"][:6] for line in err.splitlines()] == [
        *("1 of 4", "2 of 4", "3 of 4", "4 of 4")
    ]
    assert not await is_there(server)
    async with connected(server) as connection:
        assert await connection.fetchval("SELECT count(*) FROM gnomon.task_archive") == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_who_stops_it_leaves_nothing(
    server: EmbeddedServer, tmp_path: Path, number: signal.Signals
) -> None:
    with running(*LONG, cwd=tmp_path, env=environment(server)) as command:
        await in_the_middle(server, command)
        command.process.send_signal(number)
        assert ended(command) == 130, command.errors
        assert command.errors.splitlines()[-1] == "stopped; nothing is left on the server"
    assert not await is_there(server)


async def test_what_a_killed_one_leaves_the_next_one_drops(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    with running(*LONG, cwd=tmp_path, env=environment(server)) as command:
        await in_the_middle(server, command)
        command.process.kill()
        ended(command)
    assert await is_there(server)
    await eventually(lambda: _is_idle(server), SECONDS)
    code, _, err = bench(server, tmp_path, *SHORT)
    assert code == 0, err
    assert not await is_there(server)


async def _is_idle(server: EmbeddedServer) -> bool:
    async with connected(server) as connection:
        asked = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = $1)"
        return bool(await connection.fetchval(asked, DATABASE))


async def test_a_server_that_goes_down_is_told_and_the_next_one_measures(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    with running(*LONG, cwd=tmp_path, env=environment(server)) as command:
        await in_the_middle(server, command)
        server.restart(mode="immediate")
        assert ended(command) == 1
        assert "gnomon: PostgreSQL" in command.errors
        assert "Traceback" not in command.errors
    code, out, err = bench(server, tmp_path, *SHORT)
    assert code == 0, err
    assert out.splitlines()[1].startswith("drain, from the node being ready")
    assert not await is_there(server)


async def test_it_is_refused_where_it_may_not_run(
    own_server: EmbeddedServer, tmp_path: Path
) -> None:
    code, _, err = bench(own_server, tmp_path, *SHORT)
    assert code == 1
    assert 'the role gnomon may not create one: let an administrator run ALTER ROLE "gnomon"' in err
    async with connected(own_server) as connection:
        await connection.execute("ALTER ROLE gnomon CREATEDB")
        await connection.execute(f"CREATE DATABASE {DATABASE} OWNER gnomon")
    other = await asyncpg.connect(on_database(own_server.superuser_dsn, DATABASE))
    try:
        code, _, err = bench(own_server, tmp_path, *SHORT)
        assert (code, "another `gnomon bench` runs on this server" in err) == (1, True)
    finally:
        await other.close()
    assert await is_there(own_server)


async def test_it_asks_before_it_slows_nodes_down(server: EmbeddedServer, tmp_path: Path) -> None:
    async with connected(server) as connection:
        await connection.execute(
            """
            INSERT INTO gnomon.node (incarnation, name, version, slots, started_at, alive_until)
            VALUES (gen_random_uuid(), 'busy', '1', 1, now(), now() + interval '1 hour')
            """
        )
    code, _, err = bench(server, tmp_path, *SHORT)
    assert code == 1
    assert "nodes that work on this database: 1" in err
    assert not await is_there(server)
    code, _, err = bench(server, tmp_path, *SHORT, "--yes")
    assert code == 0, err


def test_without_a_database_it_starts_one(tmp_path: Path) -> None:
    shown = in_terminal(*SHORT, cwd=tmp_path)
    assert shown.code == 0, shown.out
    assert "starting a PostgreSQL" in shown.out
    assert "drain, from the node being ready" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 80
    assert [
        entry.name for entry in (tmp_path / ".gnomon/gnomon_bench_may_be_dropped").iterdir()
    ] == ["lock"]


async def test_the_server_of_a_stopped_or_killed_one_does_not_stay(tmp_path: Path) -> None:
    folder = tmp_path / ".gnomon/gnomon_bench_may_be_dropped"

    async def started() -> bool:
        return (folder / "postgres.dsn").exists()

    with running(*LONG, cwd=tmp_path) as command:
        await eventually(started, SECONDS)
        pid = int((folder / "postgres/postmaster.pid").read_text().split()[0])
        command.process.kill()
        ended(command)
    assert Path(f"/proc/{pid}/cwd").exists()
    (folder / "postgres.dsn").unlink()
    with running(*LONG, cwd=tmp_path) as command:
        await eventually(started, SECONDS)
        assert not Path(f"/proc/{pid}/cwd").exists()
        command.process.terminate()
        assert ended(command) == 130, command.errors
    assert [entry.name for entry in folder.iterdir()] == ["lock"]
