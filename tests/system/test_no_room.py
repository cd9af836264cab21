"""The disk of PostgreSQL fills up: new work is refused before PostgreSQL fails, and accepted once
there is room again."""

import os
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from proof.campaigns.cluster import Server, Tmpfs
from proof.campaigns.tools import or_skip
from tests.conftest import serving
from tests.integration.api_calls import LATER, TASKS, Api, call, submitted
from tests.waiting import eventually

from gnomon.wiring.processes import prepare

MIB = 1024**2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Tmpfs]:
    with or_skip():
        disk = Tmpfs(tmp_path / "disk", 256)
        disk.__enter__()
    yield disk
    disk.__exit__()


def leave(folder: Path, free: int) -> Path:
    """Fill the disk until so many bytes are free."""
    filling = folder / "filling"
    disk = os.statvfs(folder)
    taken = disk.f_bavail * disk.f_frsize - free
    with filling.open("wb") as file:
        for _ in range(taken // MIB):
            file.write(bytes(MIB))
    return filling


async def test_new_work_is_refused_before_postgresql_fails(small_disk: Tmpfs) -> None:
    server = Server(small_disk.folder, {"max_wal_size": "48MB", "min_wal_size": "32MB"})
    await server.start()
    try:
        await prepare(server.dsn)
        async with serving(server.dsn, database_data_dir=str(server.folder)) as api:
            task = await submitted(api)
            filling = leave(small_disk.folder, 20 * MIB)  # a tenth of the disk is kept free

            await eventually(lambda: answers(api, 507))
            # PostgreSQL itself has room still, so that what is there goes on.
            await call(api, "POST", f"{TASKS}/{task['task_id']}/cancel", 200)
            connection = await asyncpg.connect(server.dsn)
            await connection.execute("CREATE TABLE public.still AS SELECT 1")
            await connection.close()
            filling.unlink()
            await eventually(lambda: answers(api, 202))
    finally:
        await server.close()


async def answers(api: Api, status: int) -> bool:
    async with api.post(TASKS, json=LATER) as answer:
        assert answer.status in (202, 507)
        return answer.status == status
