"""The meter through retries, timeouts and the loss of a node: nothing twice, nothing missed."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.integration.own_roles import as_role, login_role
from tests.integration.support import Connection
from tests.system.conftest import NewProcess
from tests.system.harness import Receiver, Submitter, Truth, eventually
from tests.usage_truth import metered, told

from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.retry import Backoff, RetryPolicy
from gnomon.model.tasks.task import DeliveryMode

pytestmark = pytest.mark.system

HANDLERS = """
import asyncio
from gnomon import Gnomon, TaskContext

app = Gnomon()

@app.task
async def work(payload):
    await asyncio.sleep(0.02)
    return payload

@app.task
async def fail(payload):
    raise ValueError("no")

@app.task
async def hang(payload):
    await asyncio.sleep(60)

@app.task(delivery="exactly_once", transactional=True)
async def book(payload, run: TaskContext):
    await run.connection.execute("SELECT 1")
    return "booked"
"""
AT_ONCE = RetryPolicy(max_retries=1, backoff=Backoff.FIXED, base_seconds=0.0)


@pytest.fixture
async def handler_url(superuser: Connection, truth: Truth, database_dsn: str) -> AsyncIterator[str]:
    async with login_role(superuser) as role:
        await truth.fetch("SELECT gnomon.grant_role($1::text::name, 'default')", role)
        yield as_role(database_dsn, role)


async def test_nothing_is_metered_twice_or_missed_when_a_node_is_killed(
    new_node: NewProcess,
    submitter: Submitter,
    receiver: Receiver,
    truth: Truth,
    tmp_path: Path,
    handler_url: str,
) -> None:
    (tmp_path / "handlers.py").write_text(HANDLERS)
    receiver.hold()  # so that the first node is killed with calls under way
    nodes = [
        new_node(
            f"node-{n}",
            node_slots=60,
            node_app="handlers:app",
            database_handler_url=handler_url,
        )
        for n in (1, 2)
    ]
    for node in nodes:
        await node.started()
    await submitter.submit(receiver.url, 40, retry_policy=AT_ONCE)
    for name, count in (("work", 300), ("fail", 60), ("hang", 20)):
        await submitter.submit(PythonTarget(name), count, timeout_seconds=0.5, retry_policy=AT_ONCE)
    once = DeliveryMode.EXACTLY_ONCE
    await submitter.submit(PythonTarget("book"), 40, delivery=once, retry_policy=AT_ONCE)

    async def half_way() -> bool:
        ended = await truth.value("SELECT count(*) FROM gnomon.task_archive")
        return bool(ended > 100 and receiver.calls)

    await eventually(half_way)
    nodes[0].kill()
    receiver.answer()
    nodes[0].start()

    async def over() -> bool:
        return not await truth.value("SELECT count(*) FROM gnomon.task WHERE state < 4")

    await eventually(over)
    used = await metered(truth.fetch)
    assert used == await told(truth.fetch)
    assert used["default"].submissions == 460
    assert await truth.value(
        "SELECT count(*) FROM gnomon.task_archive WHERE result::text = '\"booked\"'"
    )
    outcomes = await truth.fetch(
        "SELECT DISTINCT outcome FROM gnomon.all_executions ORDER BY outcome"
    )
    assert [row["outcome"] for row in outcomes] == [
        OutcomeKind.SUCCEEDED, OutcomeKind.FAILED, OutcomeKind.TIMED_OUT, OutcomeKind.LOST,
    ]  # fmt: skip
