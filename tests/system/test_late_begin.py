"""A node that stands still after a slot has looked at its lease, and before the handler begins."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest
from tests.integration.own_roles import as_role, grant, login_role
from tests.integration.support import Connection
from tests.system.conftest import NewProcess
from tests.system.harness import Submitter, Truth, eventually

from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import DeliveryMode

pytestmark = pytest.mark.system

# Transactional handlers have one connection here: while `hold` has it, `book` waits for it. Each
# says that its slot has come to call it, and under which fence it has begun.
HANDLERS = """
from pathlib import Path

from gnomon import Gnomon, TaskContext

app = Gnomon()

HERE = Path(__file__).parent


def note(run, what):
    (HERE / f"{what}-{run.task_type}-{run.fence}-{run.attempt}").touch()


@app.middleware
async def note_slots(run, call_next):
    note(run, "slot")
    return await call_next()


@app.task(delivery="exactly_once", transactional=True)
async def hold(payload, run: TaskContext):
    note(run, "begun")
    await run.connection.execute("SELECT pg_advisory_xact_lock(1)")


@app.task(delivery="exactly_once", transactional=True)
async def book(payload, run: TaskContext):
    note(run, "begun")
"""


@pytest.fixture
async def role(superuser: Connection, connection: Connection) -> AsyncIterator[str]:
    async with login_role(superuser) as found:
        await grant(connection, found)
        yield found


async def test_no_handler_begins_when_its_transaction_is_open_after_the_lease(
    new_node: NewProcess,
    submitter: Submitter,
    truth: Truth,
    connection: Connection,
    role: str,
    database_dsn: str,
    tmp_path: Path,
) -> None:
    (tmp_path / "late_handlers.py").write_text(HANDLERS)

    def noted(name: str) -> list[str]:
        return sorted(path.name for path in tmp_path.glob(name))

    async def submit(function: str) -> UUID:
        once = DeliveryMode.EXACTLY_ONCE
        target = PythonTarget(function)
        (task,) = await submitter.submit(target, 1, delivery=once, timeout_seconds=600.0)
        return task

    async def is_held() -> bool:
        return bool(noted("begun-hold-*"))

    async def is_called() -> bool:
        return bool(noted("slot-book-*"))

    async def is_over() -> bool:
        """The lease, by the clock that decides."""
        over = await truth.value("SELECT bool_and(alive_until < gnomon.now()) FROM gnomon.node")
        return bool(over)

    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(1)")
        node = new_node(
            "node",
            node_app="late_handlers:app",
            database_handler_url=as_role(database_dsn, role),
            database_handler_connections=1,
        )
        held = await submit("hold")
        await eventually(is_held)
        booked = await submit("book")
        await eventually(is_called)
        node.pause()
        await eventually(is_over)

    async def is_released() -> bool:
        row = await truth.fetch("SELECT state FROM gnomon.task WHERE id = $1", booked)
        return [each["state"] for each in row] != [State.RUNNING]

    # It must not get its lease back before it has come to call the handler.
    async with connection.transaction():
        await connection.execute("LOCK TABLE gnomon.node IN SHARE ROW EXCLUSIVE MODE")
        node.go_on()
        await eventually(is_released)
        assert noted("begun-book-*") == []
    await eventually(lambda: truth.completed([held, booked]))
    # The claim before was given back: it has cost a fence, and no attempt.
    assert noted("begun-book-*") == ["begun-book-3-1"]
    assert noted("begun-hold-*") == ["begun-hold-1-1"]
    assert node.alive
