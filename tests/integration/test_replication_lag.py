"""How far a real standby is behind, as the installation's metrics tell it."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import pytest
from tests.conftest import migrated, opened
from tests.integration.test_bulk_outage import QUICK
from tests.waiting import eventually

from gnomon.store.embedded import EmbeddedServer
from gnomon.store.postgres.overview.overview import PostgresOverview

BEHIND = 1.0  # seconds
PORT = 5433


@contextmanager
def standby_of(server: EmbeddedServer, folder: Path) -> Iterator[str]:
    """The address of one that follows the server."""
    identity = server._identity
    assert identity is not None, "the server runs"
    programs = next(Path(each).parent for each in server._command if each.endswith("/postgres"))
    run = server.data_dir / "run"
    identity.run(
        programs / "pg_basebackup", "--pgdata", folder, "--write-recovery-conf", "--no-sync",
        "--checkpoint=fast", "--dbname", server.superuser_dsn,
    )  # fmt: skip
    settings = {
        "port": str(PORT),
        "unix_socket_directories": str(run),
        "listen_addresses": "",
        "fsync": "off",
    }
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    with (server.data_dir / "standby.log").open("wb") as log:
        process = subprocess.Popen(
            identity.command(programs / "postgres", "-D", folder, *options),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, **identity.popen_options(),
        )  # fmt: skip
    try:
        yield server.superuser_dsn.replace("port=5432", f"port={PORT}")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


@pytest.mark.timeout(180)
async def test_a_standby_that_falls_behind_is_seen(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "data", settings_overrides=QUICK) as server:
        await migrated(server.dsn)
        async with opened(server.dsn) as database:
            overview = PostgresOverview(database, [])

            async def lag() -> float | None:
                """After one more commit, as the user of Gnomon, who is no superuser."""
                async with database.connection() as connection:
                    await connection.execute("UPDATE gnomon.revision SET number = number")
                found = await overview.look()
                assert found.missing == {}
                return found.replication_lag

            async def is_behind() -> bool:
                return (await lag() or 0) > BEHIND

            async def is_near() -> bool:
                found = await lag()
                return found is not None and found < BEHIND

            assert await lag() is None
            with standby_of(server, server.data_dir / "standby") as address:
                await eventually(is_near, timeout=60)
                standby = await asyncpg.connect(address)
                await standby.execute("SELECT pg_wal_replay_pause()")
                await eventually(is_behind, timeout=60)
                await standby.execute("SELECT pg_wal_replay_resume()")
                await eventually(is_near, timeout=60)
                await standby.close()

            async def is_gone() -> bool:
                return await lag() is None

            await eventually(is_gone, timeout=60)
