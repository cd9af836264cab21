"""The PostgreSQL that users' tests run on: a fresh database for each, and nothing left behind."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest
from tests.waiting import eventually

from gnomon.testing.databases import fresh_database

# Starts the server, tells its process and folder, and waits to be killed.
_PROGRAM = """
import json, sys
from gnomon.testing.databases import server
found = server()
print(json.dumps([found.pid, found.dsn]), flush=True)
sys.stdin.read()
"""


async def _count(dsn: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        count: int = await connection.fetchval("SELECT count(*) FROM gnomon.tenant")
        return count
    finally:
        await connection.close()


async def test_two_tests_at_once_have_databases_of_their_own() -> None:
    async with fresh_database() as one, fresh_database() as other:
        connection = await asyncpg.connect(one)
        await connection.execute("INSERT INTO gnomon.tenant (id) VALUES ('only-here')")
        await connection.close()
        assert await _count(one) == await _count(other) + 1


async def test_a_database_is_dropped_although_somebody_is_connected() -> None:
    async with fresh_database() as dsn:
        connection = await asyncpg.connect(dsn)
    try:
        await _count(dsn)
    except asyncpg.InvalidCatalogNameError:
        pass
    else:
        raise AssertionError("the database is still there")
    await connection.close()


async def test_it_holds_what_is_finished_at_any_time() -> None:
    async with fresh_database() as dsn:
        connection = await asyncpg.connect(dsn)
        for moment in (datetime(1999, 1, 1, tzinfo=UTC), datetime(2199, 12, 31, tzinfo=UTC)):
            await connection.execute(
                "INSERT INTO gnomon.occurrence (tenant_id, cron_job_id, fire_at, kind) "
                "VALUES ('default', gen_random_uuid(), $1, 0)",
                moment,
            )
        await connection.close()


# A closed terminal and a CI that gives up tell the whole process group.
@pytest.mark.parametrize("whole_group", [False, True])
async def test_a_killed_test_run_leaves_no_postgresql_behind(whole_group: bool) -> None:
    command = [sys.executable, "-c", _PROGRAM]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as killed:
        assert killed.stdout is not None
        pid, dsn = json.loads(await asyncio.to_thread(killed.stdout.readline))
        folder = Path(dsn.partition("host=")[2].partition("&")[0]).parents[1]
        assert folder.exists()
        assert _is_alive(pid)
        (os.killpg if whole_group else os.kill)(killed.pid, signal.SIGKILL)

    async def gone() -> bool:
        return not _is_alive(pid) and not folder.exists()

    await eventually(gone)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
