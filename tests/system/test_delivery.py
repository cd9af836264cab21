"""What the delivery modes promise when a node is killed or stopped in the middle of a call."""

from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from tests.integration.own_roles import as_role, login_role
from tests.integration.support import Connection, store, submission
from tests.system.conftest import NewProcess
from tests.system.harness import Process, Receiver, Truth, eventually

from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.targets.target import HttpTarget, PythonTarget, Target
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.retry import Backoff, RetryPolicy
from gnomon.model.tasks.task import DeliveryMode
from gnomon.store.postgres.database import Database

pytestmark = pytest.mark.system

ONCE = RetryPolicy(max_retries=0)
AT_ONCE = RetryPolicy(max_retries=20, backoff=Backoff.FIXED, base_seconds=0.0)

# The first call for each n waits, in its open transaction, before or after its run is completed.
# It keeps talking to PostgreSQL, which ends sessions that complete and then fall silent.
# A run is completed when its function has returned. So that it can wait between that and the
# commit, the first call does what the app would do then.
BOOKINGS = """
import asyncio
import os
from pathlib import Path

from gnomon import ExecutionLost, Gnomon, TaskContext

app = Gnomon()

HERE = Path(__file__).parent
COMPLETE = "SELECT gnomon.complete($1, $2, $3, $4)"


@app.middleware
async def note_losses(run, call_next):
    try:
        return await call_next()
    except ExecutionLost:
        (HERE / f"lost-{run.task_id}").touch()
        raise


@app.task(delivery="exactly_once", transactional=True)
async def book(payload, run: TaskContext):
    n, late = payload["n"], payload["late"]
    waits = HERE / f"waits-{n}"
    await run.connection.execute("INSERT INTO public.effect VALUES ($1)", n)
    if not waits.exists():
        if late:
            await run.connection.execute(
                COMPLETE, run.tenant_id, run.task_id, run.fence, run.node
            )
        waits.write_text(str(os.getpid()))
        while not (HERE / "go").exists():
            await run.connection.execute("SELECT")
            await asyncio.sleep(0.02)
        if late:
            await run.connection.execute("COMMIT")
"""


class Stage:
    """Tasks of one mode, and what became of them."""

    def __init__(self, database: Database, truth: Truth, folder: Path, role: str) -> None:
        self.database = database
        self.truth = truth
        self.folder = folder
        self.role = role  # of transactional handlers

    async def submit(self, target: Target, count: int, **values: Any) -> list[UUID]:
        """Each is told its number, and every other one to complete late."""
        now: datetime = await self.truth.value("SELECT gnomon.now()")
        new = [
            submission(
                now,
                target=target,
                payload=msgspec.json.encode({"n": n, "late": n % 2 == 0}),
                timeout_seconds=60.0,
                **values,
            )
            for n in range(count)
        ]
        return [key.id for key in await store(self.database, *new)]

    @property
    def settings(self) -> dict[str, object]:
        """Of a node that makes the bookings."""
        return {
            "node_slots": 8,
            "node_app": "bookings:app",
            "database_handler_url": as_role(self.database.dsn, self.role),
        }

    async def bookings(self, count: int) -> list[UUID]:
        await self.truth.fetch("CREATE TABLE public.effect (n integer NOT NULL)")
        await self.truth.fetch(f"GRANT INSERT ON public.effect TO {self.role}")
        await self.truth.fetch("SELECT gnomon.grant_role($1::text::name, 'default')", self.role)
        (self.folder / "bookings.py").write_text(BOOKINGS)
        mode = DeliveryMode.EXACTLY_ONCE
        return await self.submit(
            PythonTarget("book"), count, task_type="book", delivery=mode, retry_policy=AT_ONCE
        )

    async def effects(self) -> Counter[int]:
        return Counter(row["n"] for row in await self.truth.fetch("SELECT n FROM public.effect"))

    def waiting_in(self, process: Process) -> set[int]:
        """The bookings whose transaction is open in this process."""
        return {
            int(path.name.removeprefix("waits-"))
            for path in self.folder.glob("waits-*")
            if path.read_text() == str(process.process.pid)
        }


@pytest.fixture
async def stage(
    database: Database, truth: Truth, tmp_path: Path, superuser: Connection
) -> AsyncIterator[Stage]:
    async with login_role(superuser) as role:
        yield Stage(database, truth, tmp_path, role)


async def test_an_effect_is_made_once_when_its_node_is_killed_before_the_commit(
    stage: Stage, new_node: NewProcess, truth: Truth
) -> None:
    ids = await stage.bookings(8)
    node = new_node("node", **stage.settings)

    async def all_wait() -> bool:
        return len(stage.waiting_in(node)) == 8

    await eventually(all_wait)
    node.kill()
    (stage.folder / "go").touch()
    assert await stage.effects() == {}
    node.start()
    await eventually(lambda: truth.completed(ids))
    assert await stage.effects() == dict.fromkeys(range(8), 1)
    tries = await truth.fetch(
        "SELECT array_agg(outcome ORDER BY fence) AS outcomes FROM gnomon.all_executions "
        "GROUP BY task_id"
    )
    expected = [OutcomeKind.LOST, OutcomeKind.SUCCEEDED]
    assert [row["outcomes"] for row in tries] == [expected] * 8
    assert await truth.value("SELECT count(*) FROM gnomon.task") == 0


async def test_a_node_that_was_stopped_and_comes_back_adds_nothing_to_what_others_did(
    stage: Stage, new_node: NewProcess, truth: Truth
) -> None:
    ids = await stage.bookings(8)
    first = new_node("first", **stage.settings)

    async def all_wait() -> bool:
        return len(stage.waiting_in(first)) == 8

    await eventually(all_wait)
    first.pause()
    second = new_node("second", **stage.settings)
    await second.started()
    await eventually(lambda: truth.completed(ids))
    workers = await truth.fetch("SELECT DISTINCT worker FROM gnomon.task_archive")
    assert [row["worker"] for row in workers] == ["second"]

    (stage.folder / "go").touch()
    first.go_on()

    async def born_again() -> bool:
        """All that ran in its old life has ended by then."""
        return bool(first.said("rejoining as a new incarnation: the old lease expired"))

    await eventually(born_again)
    # Those who had not completed were refused, unless they heard first that their node is dead;
    # those who had were rolled back before.
    refused = {path.name for path in stage.folder.glob("lost-*")}
    assert refused <= {f"lost-{task_id}" for task_id in ids[1::2]}
    assert await stage.effects() == dict.fromkeys(range(8), 1)
    assert await truth.value("SELECT count(*) FROM gnomon.task") == 0


async def test_at_most_once_is_called_once_when_its_node_is_killed(
    stage: Stage, new_node: NewProcess, receiver: Receiver, truth: Truth
) -> None:
    """What had begun is a dead letter, what was only claimed runs later: each has one call."""
    receiver.hold()
    ids = await stage.submit(
        HttpTarget(receiver.url), 12, delivery=DeliveryMode.AT_MOST_ONCE, retry_policy=ONCE
    )
    node = new_node("node", node_slots=4, node_prefetch=8)

    async def all_claimed() -> bool:
        claimed = await truth.value("SELECT count(*) FROM gnomon.task WHERE state = 1")
        return claimed == 12 and len(receiver.calls) == 4

    await eventually(all_claimed)
    begun = await truth.fetch("SELECT id FROM gnomon.task WHERE begun")
    called = {call.webhook_id for call in receiver.calls}
    assert {row["id"] for row in begun} == called
    node.kill()
    receiver.answer()
    node.start()

    async def buried() -> bool:
        dead = await truth.fetch("SELECT id FROM gnomon.task WHERE state = $1", State.DEAD)
        return {row["id"] for row in dead} == called

    await eventually(lambda: truth.completed(set(ids) - called))
    await eventually(buried)
    left = await truth.fetch("SELECT id, state, attempt, last_error FROM gnomon.task")
    assert {row["id"] for row in left} == called
    error = "its node died after it had begun, and at_most_once is never tried again"
    assert {tuple(row)[1:] for row in left} == {(State.DEAD, 1, error)}
    assert receiver.calls_of(ids) == dict.fromkeys(ids, 1)
    lost = await truth.fetch("SELECT task_id, outcome, worker FROM gnomon.execution")
    assert {tuple(row) for row in lost} == {(task, OutcomeKind.LOST, "node") for task in called}
