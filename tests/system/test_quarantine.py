"""Suspects of real nodes: that are killed, that are stopped, and whose PostgreSQL goes away."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import UUID

import msgspec
from tests.system.conftest import NewProcess
from tests.system.harness import (
    Process,
    Submitter,
    Truth,
    eventually,
    start_server,
    stop_server,
    submitting,
)

from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.targets.target import PythonTarget
from gnomon.store.embedded import EmbeddedServer

COUNT = 20
APP = "waiting_handlers:app"
CODE = """
import asyncio, os, pathlib
from gnomon import Gnomon, TaskContext

app = Gnomon()

@app.task
async def wait(payload, run: TaskContext):
    folder = pathlib.Path(payload["folder"])
    (folder / f"{run.task_id}.{run.attempt}.{os.getpid()}").touch()
    while not (folder / "go").exists():
        await asyncio.sleep(0.01)
"""


class Ward:
    """Suspects that wait in child processes until they may end."""

    def __init__(self, folder: Path, truth: Truth, submitter: Submitter) -> None:
        self._folder = folder
        self._truth = truth
        self._submitter = submitter
        (folder / "waiting_handlers.py").write_text(CODE)

    async def submit(self) -> list[UUID]:
        """Tasks that a node has died with, before."""
        payload = msgspec.json.encode({"folder": str(self._folder)})
        ids = await self._submitter.submit(PythonTarget("wait"), COUNT, delay=0.5, payload=payload)
        await self._truth.fetch("UPDATE gnomon.task SET losses = 1")
        return ids

    def begun(self) -> dict[tuple[str, int], int]:
        """The processes of the tries that were begun."""
        notes = [note.name.split(".") for note in self._folder.glob("*-*.*.*")]
        return {(task, int(attempt)): int(pid) for task, attempt, pid in notes}

    def have_begun(self, tries: int) -> Callable[[], Awaitable[bool]]:
        async def look() -> bool:
            return len(self.begun()) >= tries

        return look

    def go(self) -> None:
        (self._folder / "go").touch()


def is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


async def all_gone(pids: set[int]) -> None:
    async def look() -> bool:
        return not any(is_alive(pid) for pid in pids)

    await eventually(look)


async def test_processes_end_with_a_node_that_is_killed_or_stopped(
    new_node: NewProcess, submitter: Submitter, truth: Truth, tmp_path: Path
) -> None:
    ward = Ward(tmp_path, truth, submitter)
    ids = await ward.submit()
    first = new_node("first", node_app=APP)
    await eventually(ward.have_begun(COUNT))
    pids = set(ward.begun().values())
    assert first.process.pid not in pids
    first.kill()
    await all_gone(pids)

    second = new_node("second", node_app=APP)
    await eventually(ward.have_begun(2 * COUNT))
    again = set(ward.begun().values()) - pids
    second.pause()
    await all_gone(again)

    new_node("third", node_app=APP)
    await eventually(ward.have_begun(3 * COUNT))
    second.go_on()
    ward.go()
    await eventually(lambda: truth.completed(ids))
    rows = await truth.fetch(
        "SELECT outcome, error FROM gnomon.all_executions WHERE task_id = ANY ($1)", ids
    )
    outcomes = [row["outcome"] for row in rows]
    assert outcomes.count(OutcomeKind.SUCCEEDED) == COUNT
    assert outcomes.count(OutcomeKind.LOST) == 2 * COUNT == len(outcomes) - COUNT
    assert {row["error"] for row in rows} == {None, "its node died while it ran"}


async def test_suspects_outlast_a_restart_of_postgresql(
    own_server: EmbeddedServer, tmp_path: Path
) -> None:
    truth = Truth(own_server.dsn)
    node = Process(own_server.dsn, tmp_path, "node", "scheduler", node_app=APP)
    try:
        async with submitting(own_server.dsn) as submitter:
            ward = Ward(tmp_path, truth, submitter)
            ids = await ward.submit()
            node.start()
            await eventually(ward.have_begun(COUNT))
            await asyncio.to_thread(stop_server, own_server, signal.SIGINT)
            ward.go()
            await asyncio.to_thread(start_server, own_server)
            await eventually(lambda: truth.completed(ids))
        assert len(ward.begun()) == COUNT, "each was called once"
        assert not node.said("a process of suspects died")
    finally:
        node.close()
        truth.close()


async def test_a_terminal_that_interrupts_all_of_them_ends_only_the_node(
    new_node: NewProcess, submitter: Submitter, truth: Truth, tmp_path: Path
) -> None:
    ward = Ward(tmp_path, truth, submitter)
    ids = await ward.submit()
    node = new_node("node", node_app=APP)
    await eventually(ward.have_begun(COUNT))
    for pid in (*set(ward.begun().values()), node.process.pid):
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGINT)
    ward.go()
    assert await node.code(timeout=30) == 0
    assert await truth.completed(ids), "they were let to their ends"
    await all_gone(set(ward.begun().values()))
