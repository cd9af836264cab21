"""`gnomon batches` against the real API."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.commands import api_running, gnomon_here
from tests.integration.nodes import running_node


@pytest.fixture
def here(
    database_dsn: str, tmp_path: Path, unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GNOMON_URL", f"http://127.0.0.1:{unused_tcp_port}")
    with api_running(database_dsn, unused_tcp_port, tmp_path):
        yield tmp_path


async def _watched(database_dsn: str, *arguments: str) -> Any:
    async with running_node(database_dsn):
        return await asyncio.to_thread(gnomon_here, *arguments)


def test_a_batch_from_its_opening_to_its_end(here: Path, database_dsn: str) -> None:
    assert gnomon_here("batches", "list").err == "no batches\n"
    opened = gnomon_here(
        "batches", "open", "--name", "pictures", "--on-complete", "http://127.0.0.1:9/nobody",
        "--close-within", "1h",
    )  # fmt: skip
    batch = opened.out.strip()
    for _ in range(2):
        assert gnomon_here("submit", "echo", "who=x", "--batch", batch).code == 0
    listed = gnomon_here("batches", "list", "--status", "open").out.splitlines()[1].split()
    assert listed[:6] == [batch, "pictures", "OPEN", "2", "0", "2"]
    waiting = gnomon_here("batches", "show", batch[:18], "--json").json["on_complete"]
    why = gnomon_here("tasks", "explain", waiting)
    assert f"on_complete of batch {batch}, which is open" in " ".join(why.out.split())
    assert gnomon_here("tasks", "list", "--batch", batch, "--type", "echo").out.count("echo") == 2
    done = asyncio.run(_watched(database_dsn, "batches", "close", batch, "--watch"))
    assert done.code == 0
    assert f"SUCCEEDED [{'#' * 30}] 2 of 2" in done.out
    refused = gnomon_here("submit", "echo", "who=x", "--batch", batch)
    assert refused.code == 1
    assert "is CLOSED and cannot be added to" in refused.err
    assert gnomon_here("batches", "cancel", batch).code == 1

    lost = gnomon_here("batches", "open").out.strip()
    gnomon_here("submit", "echo", "who=x", "--batch", lost, "--delay", "1h")
    assert gnomon_here("batches", "cancel", lost).out == f"{lost} is CANCELLING\n"
    ended = asyncio.run(_watched(database_dsn, "batches", "show", lost, "--watch"))
    assert ended.code == 1
    assert "1 of 1, 1 cancelled" in ended.out
