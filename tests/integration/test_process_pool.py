"""Handlers with process=True: real child processes, one execution in each at a time."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from tests.integration.api_calls import TASKS, Api, call
from tests.integration.nodes import running_node
from tests.integration.support import Connection, database_now, key_of, store, submission, tries
from tests.integration.test_quarantine_processes import alive_children
from tests.settings import settings_with
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.node.membership.lease import Lease
from gnomon.node.run.process_pool import ProcessPool
from gnomon.node.run.stacks import Interrupted
from gnomon.observe.events import Event
from gnomon.sdk.executing.context import Progress, TaskContext
from gnomon.store.postgres.database import Database
from gnomon.testing.contracts.pipe import a_delivery

APP = "tests.integration.heavy:app"


class Pool:
    """A pool of two processes, and the calls that it makes."""

    def __init__(self, **changes: Any) -> None:
        settings = settings_with(node_app=APP, targets_processes=2, **changes)
        self.clock = SystemClock()
        self.events: list[Event] = []
        self.lease = Lease(UUID(int=0), 3600.0)
        self.lease.renewed(self.clock.monotonic())
        self.processes = ProcessPool(settings, self.clock, self.lease, self.events.append)
        self.contexts: list[TaskContext] = []
        self._numbers = count(1)

    def call(self, handler: str, **arguments: Any) -> "asyncio.Task[Outcome | None]":
        delivery = msgspec.structs.replace(
            a_delivery(next(self._numbers)),
            target=PythonTarget(handler),
            start_by=self.clock.seconds() + 60,
            timeout_seconds=60.0,
        )
        context = TaskContext(delivery)
        self.contexts.append(context)

        async def make() -> Outcome | None:
            waiting = self.processes.ready(delivery)
            if waiting is not None:
                await waiting
            return await self.processes.call(delivery, msgspec.json.encode(arguments), context)

        return asyncio.create_task(make())

    async def result(self, handler: str, **arguments: Any) -> Any:
        outcome = await self.call(handler, **arguments)
        assert outcome is not None
        assert outcome.kind is OutcomeKind.SUCCEEDED, outcome.error
        return msgspec.json.decode(outcome.result or "null")


@asynccontextmanager
async def opened(**changes: Any) -> AsyncIterator[Pool]:
    pool = Pool(**changes)
    async with pool.processes:
        yield pool
    assert alive_children() == set()


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async with opened() as pool:
        yield pool


async def noted(folder: Path, what: str, number: int = 1) -> list[Path]:
    async def look() -> list[Path] | None:
        found = list(folder.glob(f"{what}.*"))
        return found if len(found) >= number else None

    return await eventually(look)


async def test_processes_are_started_when_needed_and_stay_warm(pool: Pool) -> None:
    assert alive_children() == set()
    first = await pool.result("where")
    assert alive_children() == {first}
    assert await pool.result("where") == first
    assert await pool.result("where_async") == first


async def test_each_runs_one_at_a_time_and_no_more_than_the_limit(
    pool: Pool, tmp_path: Path
) -> None:
    calls = [pool.call("look", notes=str(tmp_path)) for _ in range(2)]
    begun = await noted(tmp_path, "begun", 2)
    assert {path.suffix for path in begun} == {f".{pid}" for pid in alive_children()}
    assert await pool.call("where") is None, "to be released: no process is free"
    for each in calls:
        each.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    assert await pool.result("where") in alive_children()


@pytest.mark.parametrize("handler", ["spin", "block"])
async def test_one_that_does_not_stop_is_killed_and_replaced(
    pool: Pool, tmp_path: Path, handler: str
) -> None:
    task = pool.call(handler, notes=str(tmp_path))
    (begun,) = await noted(tmp_path, "begun")
    task.cancel()
    with pytest.raises(Interrupted) as told:
        await task
    if handler == "spin":
        assert "in spin" in (told.value.where or "")
    pid = int(begun.suffix[1:])

    async def gone() -> bool:
        return pid not in alive_children()

    await eventually(gone)
    assert await pool.result("where") != pid


@pytest.mark.parametrize("number", [0, int(signal.SIGKILL)])
async def test_what_a_handler_has_started_ends_with_its_process(
    pool: Pool, tmp_path: Path, number: int
) -> None:
    task = pool.call("start_more", notes=str(tmp_path), signal_number=number)
    (begun,) = await noted(tmp_path, "begun")
    if not number:
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    async def gone() -> bool:
        try:
            stat = Path(f"/proc/{begun.suffix[1:]}/stat").read_text()
        except FileNotFoundError:
            return True
        return stat.rpartition(")")[2].split()[0] == "Z"  # nobody here reaps orphans

    await eventually(gone)


async def test_one_that_looks_stops_by_itself_and_its_process_stays(
    pool: Pool, tmp_path: Path
) -> None:
    task = pool.call("look", notes=str(tmp_path))
    (begun,) = await noted(tmp_path, "begun")

    async def reported() -> bool:
        return pool.contexts[0].reported == Progress(0.25, "a quarter")

    await eventually(reported)
    task.cancel()
    with pytest.raises(Interrupted):
        await task
    assert await noted(tmp_path, "told")
    assert await pool.result("where") == int(begun.suffix[1:])


async def test_one_that_dies_fails_its_own_execution_and_no_other(
    pool: Pool, tmp_path: Path
) -> None:
    other = pool.call("look", notes=str(tmp_path))
    await noted(tmp_path, "begun")
    outcome = await pool.call("die", signal_number=int(signal.SIGKILL))
    assert outcome is not None
    assert outcome.kind is OutcomeKind.FAILED
    assert outcome.error == "the process that it ran in died: signal 9 (SIGKILL)"
    assert not other.done()
    assert await pool.result("where") in alive_children()
    other.cancel()
    await asyncio.gather(other, return_exceptions=True)


async def test_a_failure_has_its_traceback_and_its_log_lines(
    pool: Pool, capfd: pytest.CaptureFixture[str]
) -> None:
    outcome = await pool.call("fail")
    assert outcome is not None
    assert (outcome.kind, outcome.error) == (OutcomeKind.FAILED, "ValueError: in a process")
    assert (outcome.traceback or "").splitlines()[-1] == "ValueError: in a process"
    assert "in fail" in (outcome.traceback or "")
    (line,) = [line for line in capfd.readouterr().err.splitlines() if "about to fail" in line]
    assert str(pool.contexts[0].task_id) in line


@pytest.mark.parametrize("handler", ["look", "block"])
async def test_one_that_was_stopped_begins_nothing_once_the_lease_has_run_out(
    pool: Pool, tmp_path: Path, handler: str
) -> None:
    pid = await pool.result("where")
    pool.lease.trusted_until = until = pool.clock.monotonic() + 0.5  # not renewed: the node stops
    os.kill(pid, signal.SIGSTOP)
    made = pool.call(handler, notes=str(tmp_path))

    async def has_run_out() -> bool:
        return pool.clock.monotonic() > until

    await eventually(has_run_out)
    os.kill(pid, signal.SIGCONT)
    assert await made is None, "to be released"
    assert not list(tmp_path.iterdir())
    pool.lease.renewed(pool.clock.monotonic())
    assert await pool.result("where") == pid


async def test_an_idle_one_ends_with_the_lifespan_of_its_app(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GNOMON_TEST_NOTES", str(tmp_path))
    async with opened() as pool:
        pid = await pool.result("where")
    assert (tmp_path / f"left.{pid}").exists()


async def test_an_app_that_cannot_be_imported_is_told(tmp_path: Path) -> None:
    pool = Pool()
    settings = settings_with(node_app=None, targets_processes=2)
    pool.processes = ProcessPool(settings, pool.clock, pool.lease, pool.events.append)
    outcome = await pool.call("where")
    assert outcome is not None
    assert "name it in node.app" in (outcome.error or "")


async def test_a_node_runs_them_and_kills_them_at_their_timeout(
    api: Api, database: Database, connection: Connection, database_dsn: str, tmp_path: Path
) -> None:
    now = await database_now(connection)
    payload = msgspec.json.encode({"notes": str(tmp_path)})
    once = RetryPolicy(max_retries=0)
    spin = submission(
        now, due_in=0.0, target=PythonTarget("spin"), payload=payload, retry_policy=once,
        timeout_seconds=0.5,
    )  # fmt: skip
    look = submission(now, due_in=0.0, target=PythonTarget("look"), payload=payload)
    await store(database, spin, look)
    async with running_node(database_dsn, node_app=APP, targets_processes=2):

        async def over() -> bool:
            found = await call(api, "GET", f"{TASKS}/{spin.id}", 200)
            return str(found["status"]) == "DEAD_LETTERED"

        await eventually(over)

        async def progress() -> Any:
            return (await call(api, "GET", f"{TASKS}/{look.id}", 200))["progress"]

        assert (await eventually(progress))["message"] == "a quarter"
        await call(api, "POST", f"{TASKS}/{look.id}/cancel", 200, {"interrupt": True})
        assert await noted(tmp_path, "told")
    (tried,) = await tries(connection, key_of(spin))
    assert tried["outcome"] == OutcomeKind.TIMED_OUT
    assert "in spin" in tried["traceback"]
    assert alive_children() == set()
