"""Fixtures of the fault tests. Whatever they start is gone afterwards, also after a failure."""

import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from proof.cron_chaos.world import CronReceiver
from tests.system.harness import Process, Receiver, Submitter, Truth, submitting

from gnomon.store.embedded import EmbeddedServer

NewProcess = Callable[..., Process]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    started = Receiver()
    started.start()
    yield started
    started.close()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[list[Process]]:
    """All that a test has started."""
    started: list[Process] = []
    yield started
    for process in started:
        process.close()


@pytest.fixture
def new_node(database_dsn: str, tmp_path: Path, processes: list[Process]) -> NewProcess:
    """Start a node on the test's database."""

    def start(name: str, **settings: object) -> Process:
        processes.append(Process(database_dsn, tmp_path, name, "scheduler", **settings))
        processes[-1].start()
        return processes[-1]

    return start


@pytest.fixture
async def submitter(database_dsn: str) -> AsyncIterator[Submitter]:
    async with submitting(database_dsn) as opened:
        yield opened


@pytest.fixture
def truth(database_dsn: str) -> Iterator[Truth]:
    opened = Truth(database_dsn)
    yield opened
    opened.close()


@pytest.fixture
def own_server(tmp_path: Path, migrated_files: Path) -> Iterator[EmbeddedServer]:
    """A durable server that a test may stop and start."""
    folder = shutil.copytree(migrated_files, tmp_path / "durable")
    with EmbeddedServer(folder, settings_overrides={"shared_buffers": "64MB"}) as server:
        yield server


@pytest.fixture
def cron_receiver(tmp_path: Path) -> Iterator[CronReceiver]:
    """A process that notes what cron runs call it, and when."""
    started = CronReceiver(tmp_path)
    started.start()
    yield started
    started.close()


@pytest.fixture
async def api_url(database_dsn: str, tmp_path: Path, processes: list[Process]) -> str:
    """The API in a process of its own on the test's database."""
    processes.append(Process(database_dsn, tmp_path, "api", "api", api_port=0))
    processes[-1].start()
    return await processes[-1].started()
