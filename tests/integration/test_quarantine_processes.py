"""Suspects in real child processes, called without a node around them."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from tests.settings import settings_with
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.model.outcomes.outcome import Loss, Outcome, OutcomeKind
from gnomon.model.outcomes.quarantine import ALONE_FROM, STEP
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.task import DeliveryMode
from gnomon.node.membership.lease import Lease
from gnomon.node.run.children.frames import Ended, Started, Uncalled, framed
from gnomon.node.run.children.jobs import Job, Unstarted
from gnomon.node.run.children.process import ChildProcess
from gnomon.node.run.quarantine.pool import Quarantine
from gnomon.node.run.threads import LeftRunning
from gnomon.observe.events import ChildDied, ChildUnfit, Event
from gnomon.pipe.envelope import Delivery
from gnomon.sdk.executing.context import TaskContext
from gnomon.settings import Settings
from gnomon.testing.contracts.pipe import a_delivery
from gnomon.workflow.spawning import spawned_id

SETTINGS = settings_with(
    targets_quarantine_processes=2,
    node_lease_seconds=20.0,
    node_timeout_grace_seconds=2.0,
    node_app="tests.integration.deadly:app",
)
START_SECONDS = 40.0  # for a claimed task to begin in


class HurriedClock(SystemClock):
    """One that can be put forward."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self.looks = 0  # waits that have begun: each process is looked at before
        super().__init__(lambda: time.monotonic() + self.ahead)

    async def wait(self, event: asyncio.Event, seconds: float | None) -> bool:
        self.looks += 1
        return await super().wait(event, seconds)

    async def looked(self) -> None:
        """Until all processes have been looked at, once more."""
        before = self.looks

        async def look() -> bool:
            return self.looks > before + 1

        await eventually(look)


def a_lease() -> Lease:
    lease = Lease(UUID(int=0), 3600.0)
    lease.renewed(SystemClock().monotonic())
    return lease


class Ward:
    """A quarantine, and all that was told of it."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        self.events: list[Event] = []
        self.clock = HurriedClock()
        self.quarantine = Quarantine(settings, self.clock, a_lease(), self.events.append)
        self.tasks: list[asyncio.Task[Outcome | None]] = []
        self.runs: list[TaskContext] = []
        self._numbers = count(1)

    def call(
        self, function: str, tenant: str = "a", losses: int = 1, mode: str = "", **payload: Any
    ) -> "asyncio.Task[Outcome | None]":
        return self.call_delivery(self.delivery(function, tenant, losses, mode), **payload)

    def call_delivery(self, delivery: Delivery, **payload: Any) -> "asyncio.Task[Outcome | None]":
        run = TaskContext(delivery)
        body = msgspec.json.encode({"notes": str(self.folder), **payload})
        task = asyncio.create_task(self._call(delivery, body, run))
        self.tasks.append(task)
        self.runs.append(run)
        return task

    async def _call(self, delivery: Delivery, payload: bytes, run: TaskContext) -> Outcome | None:
        """As a slot does."""
        waiting = self.quarantine.ready(delivery)
        if waiting is not None:
            await waiting
        return await self.quarantine.call(delivery, payload, run)

    def delivery(self, function: str, tenant: str, losses: int, mode: str) -> Delivery:
        delivery = a_delivery(next(self._numbers))
        return msgspec.structs.replace(
            delivery,
            key=msgspec.structs.replace(delivery.key, tenant_id=tenant),
            target=PythonTarget(function),
            losses=losses,
            start_by=self.clock.seconds() + START_SECONDS,
            mode=DeliveryMode(mode or "at_least_once"),
        )

    def notes(self, what: str, name: str = "") -> list[Path]:
        return list(self.folder.glob(f"{name}*.{what}.*"))

    async def noted(self, number: int, what: str = "begun") -> None:
        async def look() -> bool:
            return len(self.notes(what)) >= number

        await eventually(look)

    @property
    def deaths(self) -> list[ChildDied]:
        return [event for event in self.events if isinstance(event, ChildDied)]

    async def died(self, number: int) -> None:
        async def look() -> bool:
            return len(self.deaths) >= number

        await eventually(look)


@asynccontextmanager
async def opened(folder: Path, **changes: Any) -> AsyncIterator[Ward]:
    ward = Ward(folder, settings_with(SETTINGS, **changes))
    async with ward.quarantine:
        yield ward
        for task in ward.tasks:
            task.cancel()
        await asyncio.gather(*ward.tasks, return_exceptions=True)
    assert alive_children() == set()


@pytest.fixture
async def ward(tmp_path: Path) -> AsyncIterator[Ward]:
    async with opened(tmp_path) as ward:
        yield ward


def alive_children() -> set[int]:
    """Processes of this one that run suspects."""
    return set(_children())


def _children() -> Iterator[int]:
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that has ended
            for pid in (task / "children").read_text().split():
                if b"gnomon.node.run.children" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    yield int(pid)


def lost(outcome: Outcome | None) -> tuple[Loss, str]:
    assert outcome is not None
    assert outcome.kind is OutcomeKind.LOST
    assert outcome.error is not None
    return outcome.loss, outcome.error


async def test_functions_work_there_as_they_do_in_the_node(ward: Ward) -> None:
    results = {name: ward.call(name, n=3) for name in ("echo", "echo_in_a_thread", "speak")}
    for name in ("echo", "echo_in_a_thread"):
        outcome = await results[name]
        assert outcome is not None
        assert outcome.kind is OutcomeKind.SUCCEEDED
        assert msgspec.json.decode(outcome.result or "")["n"] == 3
    assert await results["speak"] == Outcome(OutcomeKind.SUCCEEDED, result='""')
    snoozed = await ward.call("fail", how="snooze")
    assert snoozed == Outcome(OutcomeKind.SNOOZED, retry_after=5.0)
    rejected = await ward.call("fail", how="reject")
    assert rejected is not None
    assert (rejected.error, rejected.retryable) == ("Reject: no", False)
    assert "deadly.py" in (rejected.traceback or "")
    exited = await ward.call("fail", how="exit")
    assert exited is not None
    assert (exited.kind, exited.error) == (OutcomeKind.FAILED, "SystemExit: 3")
    assert await ward.call("exit_in_a_task") == Outcome(OutcomeKind.SUCCEEDED, result='"alive"')
    unknown = await ward.call("unheard_of")
    assert unknown is not None
    assert "has no handler 'unheard_of'" in (unknown.error or "")
    assert len(alive_children()) == 1
    assert ward.deaths == []


async def test_what_a_suspect_spawns_comes_with_its_outcome(ward: Ward) -> None:
    suspect = ward.delivery("spawn", "a", 1, "")
    outcome = await ward.call_delivery(msgspec.structs.replace(suspect, workflow_node="first"), n=2)
    assert outcome is not None
    assert outcome.kind is OutcomeKind.SUCCEEDED, outcome.error
    spawns = msgspec.json.decode(outcome.spawns or "")
    assert [(each["task_type"], each["payload"]) for each in spawns] == [
        ("echo", 0), ("echo", 1),
    ]  # fmt: skip
    assert msgspec.json.decode(outcome.result or "") == [
        str(spawned_id(suspect.key.id, number)) for number in range(2)
    ]
    outside = await ward.call("spawn", n=1)
    assert outside is not None
    assert "only a task of a workflow run can spawn" in (outside.error or "")


DEATHS = {
    "kill": "signal 9 (SIGKILL)",
    "segfault": "signal 11 (SIGSEGV)",
    "grandchild": "exit code 3",
    "nonsense": "it wrote what is no frame",
}


@pytest.mark.parametrize("how", DEATHS)
async def test_one_that_dies_alone_has_killed_its_process(ward: Ward, how: str) -> None:
    loss, error = lost(await ward.call("die_in_a_thread", how=how))
    assert loss is Loss.ALONE
    assert error.startswith(f"it killed the process that it ran in, alone: {DEATHS[how]}")
    await ward.died(1)
    (death,) = ward.deaths
    assert (death.tasks, death.alone) == (1, True)
    (killer,) = ward.quarantine.killers
    assert killer.how.startswith(DEATHS[how])
    assert (await ward.call("echo")) is not None


async def test_those_that_died_with_it_are_told_so_and_others_do_not_notice(
    ward: Ward, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    mates = [ward.call("wait_for", file=str(tmp_path / "never")) for _ in range(5)]
    killer = ward.call("die", how="kill", after=str(go))
    others = [ward.call("wait_for", "b", file=str(go)) for _ in range(3)]
    await ward.noted(9)
    assert len(alive_children()) == 2
    go.touch()
    for loss, error in [lost(await task) for task in (*mates, killer)]:
        assert loss is Loss.IN_GROUP
        assert error == "the process that it ran in with 5 other tasks died: signal 9 (SIGKILL)"
    assert {(await task or mates).kind for task in others} == {OutcomeKind.SUCCEEDED}  # type: ignore[union-attr]


async def test_a_bomb_that_one_leaves_behind_is_not_the_fault_of_the_next(
    ward: Ward, tmp_path: Path
) -> None:
    assert await ward.call("leave_a_bomb") == Outcome(OutcomeKind.SUCCEEDED, result='"harmless"')
    loss, _ = lost(await ward.call("wait_for", file=str(tmp_path / "never")))
    assert loss is Loss.IN_GROUP
    await ward.call("leave_a_bomb")
    alone = ward.call("where", losses=ALONE_FROM)
    outcome = await alone
    assert outcome is not None
    assert outcome.kind is OutcomeKind.SUCCEEDED, "it had a process of its own"


async def test_what_must_not_be_called_twice_has_a_process_for_itself(
    ward: Ward, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    tasks = [ward.call("wait_for", mode="at_most_once", file=str(go)) for _ in range(2)]
    tasks.append(ward.call("wait_for", file=str(go)))
    killer = ward.call("die", mode="at_most_once", how="exit")
    loss, error = lost(await killer)
    assert loss is Loss.ALONE
    assert error.endswith("never tried again")
    await ward.noted(4)
    go.touch()
    outcomes = [await task for task in tasks]
    assert len({outcome.result for outcome in outcomes if outcome is not None}) == 3


async def test_one_that_is_told_to_stop_stops(ward: Ward) -> None:
    task = ward.call("stop_when_told")
    await ward.noted(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await ward.noted(1, "stopped")
    assert (await ward.call("echo")) is not None
    assert ward.deaths == []


@pytest.mark.parametrize("function", ["be_stubborn", "hang_in_a_thread"])
async def test_one_that_ignores_it_costs_the_others_in_its_process_nothing(
    ward: Ward, tmp_path: Path, function: str
) -> None:
    go = tmp_path / "go"
    mate = ward.call("wait_for", file=str(go))
    stubborn = ward.call(function)
    await ward.noted(2)
    (process,) = alive_children()
    stubborn.cancel()
    if function == "hang_in_a_thread":
        with pytest.raises(LeftRunning):
            await stubborn

    async def given_to_another() -> bool:
        outcome = await ward.call("where")
        return outcome is not None and outcome.result != str(process)

    await eventually(given_to_another)
    go.touch()
    outcome = await mate
    assert outcome is not None
    assert outcome.result == str(process)

    async def ended() -> bool:
        return process not in alive_children()

    await eventually(ended)
    with pytest.raises(asyncio.CancelledError):
        await stubborn
    assert ward.deaths == []


async def test_the_others_have_a_minute_in_an_old_process_too(ward: Ward, tmp_path: Path) -> None:
    go = tmp_path / "go"
    mate = ward.call("wait_for", file=str(go))
    stubborn = ward.call("be_stubborn")
    await ward.noted(2)
    (process,) = alive_children()
    ward.clock.ahead += 70.0  # since one of them last ran alone
    await ward.clock.looked()
    stubborn.cancel()
    await ward.clock.looked()
    ward.clock.ahead += 10.0
    await ward.clock.looked()
    go.touch()
    outcome = await mate
    assert outcome == Outcome(OutcomeKind.SUCCEEDED, result=str(process))
    with pytest.raises(asyncio.CancelledError):
        await stubborn


async def test_the_others_have_no_more_than_that(ward: Ward, tmp_path: Path) -> None:
    mate = ward.call("wait_for", file=str(tmp_path / "never"))
    stubborn = ward.call("be_stubborn")
    await ward.noted(2)
    stubborn.cancel()
    await ward.clock.looked()
    ward.clock.ahead += 10.0  # it has ignored being told to stop
    await ward.clock.looked()
    ward.clock.ahead += 70.0
    loss, error = lost(await mate)
    assert loss is Loss.NODE
    assert "another handler in it ignored being told to stop" in error
    with pytest.raises(asyncio.CancelledError):
        await stubborn


async def test_one_that_blocks_its_process_has_killed_it(tmp_path: Path) -> None:
    async with opened(tmp_path, node_lease_seconds=2.0) as ward:
        loss, error = lost(await ward.call("die", how="block"))
        assert loss is Loss.ALONE
        assert "it blocked the event loop of its process for" in error


async def test_one_that_blocks_its_process_past_its_time_has_killed_it(ward: Ward) -> None:
    """It could not be told that its time was up. Called again in the node, it would stop that."""
    task = ward.call("die", how="block")
    await ward.noted(1)
    task.cancel()
    loss, error = lost(await task)
    assert loss is Loss.ALONE
    assert "it blocked the event loop" in error


async def test_the_node_knows_that_a_run_was_being_completed(ward: Ward) -> None:
    ward.call("complete")
    await ward.noted(1)
    (run,) = ward.runs

    async def told() -> bool:
        return run.completed

    await eventually(told)
    (process,) = alive_children()
    os.kill(process, 9)
    outcome = await ward.tasks[0]
    assert outcome is not None
    assert outcome.completed_by_handler


async def test_an_app_that_cannot_be_loaded_there_is_reported(tmp_path: Path) -> None:
    async with opened(tmp_path, node_app="tests.integration.nowhere:app") as ward:
        assert await ward.call("echo") is None, "not called, and to be given back"
        assert not ward.quarantine.is_open(), "nothing more is claimed for a while"
        (unfit,) = [event for event in ward.events if isinstance(event, ChildUnfit)]
        assert "there is no module 'tests.integration.nowhere'" in unfit.why
        assert await ward.call("echo") is None


async def test_one_that_is_cancelled_before_its_process_has_started_is_not_called(
    ward: Ward,
) -> None:
    task = ward.call("stop_when_told")
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await ward.call("echo")) is not None
    assert ward.notes("begun") == []


async def test_one_that_is_told_to_stop_before_it_could_begin_is_not_called(
    ward: Ward, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    blocking = ward.call("block_until", file=str(go))
    await ward.noted(1)
    (process,) = alive_children()
    tasks = [ward.call("stop_when_told") for _ in range(5)]
    await asyncio.sleep(0)  # until they are sent
    for task in tasks:
        task.cancel()
    for _ in range(10):  # turns of the loop, until that is sent, too
        await asyncio.sleep(0)
    go.touch()
    assert await asyncio.gather(*tasks) == [None] * 5
    assert len(ward.notes("begun")) == 1
    outcome = await blocking
    assert outcome is not None
    assert outcome.kind is OutcomeKind.SUCCEEDED
    assert process in alive_children(), "it was not ended for their sake"


async def test_what_a_process_told_before_its_node_ended_it_is_heard(ward: Ward) -> None:
    child = ChildProcess(SETTINGS, SystemClock(), a_lease())
    jobs = []
    for number in (1, 2, 3, 4):
        delivery = ward.delivery("echo", "a", 1, "")
        jobs.append(Job(number, delivery, None, TaskContext(delivery)))
        child.give(jobs[-1])
    child.close_by_node("its node has ended")
    ended = Ended(1, Outcome(OutcomeKind.SUCCEEDED))
    uncalled = framed(Started(4)) + framed(Uncalled(4))  # its thread was not in time
    told = uncalled + framed(Started(1)) + framed(ended) + framed(Started(2))
    child.pipe_data_received(1, told + b"\xff" * 100)
    child.pipe_data_received(1, framed(Started(3)))
    died = child.conclude()
    assert [job.over.result() for job in jobs] == [ended, died, Unstarted(), Unstarted()]


async def test_one_that_is_retired_while_it_starts_is_not_unfit() -> None:
    child = ChildProcess(SETTINGS, SystemClock(), a_lease())
    starting = asyncio.create_task(child.start())
    try:

        async def begun() -> bool:
            return child.pid is not None

        await eventually(begun)
        child.retire()
        assert await starting is None
        assert child.ready
    finally:
        child.close()
        await child.wait_gone()


async def test_a_process_without_its_node_ends(tmp_path: Path) -> None:
    """Also when the node is only stopped: others may have taken its tasks over."""
    async with opened(tmp_path, node_lease_seconds=1.0) as ward:
        task = ward.call("wait_for", file=str(tmp_path / "never"))
        await ward.noted(1)
        (process,) = alive_children()
        deadline = SystemClock().monotonic() + 30
        while process in alive_children() and SystemClock().monotonic() < deadline:
            pass  # this node does not get to anything else
        assert process not in alive_children()
        loss, error = lost(await task)
        assert loss is Loss.NODE
        assert "its node did not answer" in error
        assert ward.deaths == []


async def test_an_idle_process_is_replaced_where_one_is_needed(ward: Ward) -> None:
    outcomes = [await ward.call("where", losses=ALONE_FROM) for _ in range(6)]
    assert len({outcome.result for outcome in outcomes if outcome is not None}) == 6

    async def gone() -> bool:
        return len(alive_children()) <= 1

    await eventually(gone)


@pytest.mark.parametrize(("losses", "processes"), [(1, 1), (ALONE_FROM - STEP, 2), (ALONE_FROM, 4)])
async def test_the_start_of_a_process_is_not_the_time_of_the_function(
    ward: Ward, losses: int, processes: int
) -> None:
    deliveries = [ward.delivery("where", "a", losses, "") for _ in range(4)]
    waiting = [ward.quarantine.ready(delivery) for delivery in deliveries]
    await asyncio.gather(*[each for each in waiting if each is not None])
    started = alive_children()
    assert len(started) == processes
    calls = [ward.quarantine.call(each, b"{}", TaskContext(each)) for each in deliveries]
    outcomes = [outcome for outcome in await asyncio.gather(*calls) if outcome is not None]
    assert len(outcomes) == 4
    assert {outcome.result for outcome in outcomes} == {str(pid) for pid in started}


async def test_a_place_is_kept_until_the_call_must_have_begun(ward: Ward) -> None:
    first, second = (ward.delivery("where", "a", ALONE_FROM, "") for _ in range(2))
    waiting = ward.quarantine.ready(first)
    assert waiting is not None
    await waiting
    assert ward.quarantine.ready(first) is None, "it has its place already"
    ward.clock.ahead += START_SECONDS + 1
    await ward.clock.looked()
    assert await ward.quarantine.call(first, b"{}", TaskContext(first)) is None
    waiting = ward.quarantine.ready(second)
    if waiting is not None:
        await waiting
    outcome = await ward.quarantine.call(second, b"{}", TaskContext(second))
    assert outcome is not None
    assert outcome.kind is OutcomeKind.SUCCEEDED


async def test_one_that_waits_no_longer_leaves_its_place(ward: Ward) -> None:
    first, second = (ward.delivery("where", "a", ALONE_FROM, "") for _ in range(2))
    waiting = ward.quarantine.ready(first)
    assert waiting is not None
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await waiting
    waiting = ward.quarantine.ready(second)
    assert waiting is not None
    await waiting
    assert len(alive_children()) == 1
    assert await ward.quarantine.call(first, b"{}", TaskContext(first)) is None
    assert await ward.quarantine.call(second, b"{}", TaskContext(second)) is not None
