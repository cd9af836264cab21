"""A process that waits for a migration can be stopped, however long it would have to wait."""

import asyncio
import signal
from pathlib import Path

import pytest
from tests.integration.support import Connection
from tests.system.harness import Process
from tests.waiting import eventually

from gnomon.store.postgres import migrate
from gnomon.store.postgres.migrate.record import TRANSACTION_LOCK

pytestmark = pytest.mark.system


@pytest.mark.parametrize("command", ["scheduler", "api", "up"])
async def test_a_process_that_waits_for_a_migration_ends_when_asked_to(
    command: str,
    connection: Connection,
    database_dsn: str,
    tmp_path: Path,
    processes: list[Process],
) -> None:
    await migrate.down(connection, migrate.migrations()[-2].version)
    await connection.execute("SELECT pg_advisory_lock($1)", TRANSACTION_LOCK)
    process = Process(database_dsn, tmp_path, "waits", command, api_port=0)
    processes.append(process)
    process.start()

    async def waits() -> bool:
        assert process.alive, process.text()
        return "another process is migrating" in process.text()

    await eventually(waits)
    process.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(process.process.wait, 20) == 0, process.text()
    assert not (await migrate.status(connection))[-1].applied
