"""The meter through retries, timeouts and the loss of a node: nothing twice, nothing missed."""

from pathlib import Path

import pytest
from tests.system.conftest import NewProcess
from tests.system.harness import Receiver, Submitter, Truth, eventually
from tests.usage_truth import metered, told

from gnomon.model.outcome import OutcomeKind
from gnomon.model.retry import Backoff, RetryPolicy
from gnomon.model.target import PythonTarget

pytestmark = pytest.mark.system

HANDLERS = """
import asyncio
import asyncpg
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

@app.task
async def book(payload, run: TaskContext):
    connection = await asyncpg.connect(payload["dsn"])
    try:
        async with connection.transaction():
            await run.complete(connection, "booked")
    finally:
        await connection.close()
"""
AT_ONCE = RetryPolicy(max_retries=1, backoff=Backoff.FIXED, base_seconds=0.0)


async def test_nothing_is_metered_twice_or_missed_when_a_node_is_killed(
    new_node: NewProcess,
    submitter: Submitter,
    receiver: Receiver,
    truth: Truth,
    tmp_path: Path,
    database_dsn: str,
) -> None:
    (tmp_path / "handlers.py").write_text(HANDLERS)
    receiver.hold()  # so that the first node is killed with calls under way
    nodes = [new_node(f"node-{n}", node_slots=60, node_app="handlers:app") for n in (1, 2)]
    for node in nodes:
        await node.started()
    await submitter.submit(receiver.url, 40, retry_policy=AT_ONCE)
    payload = f'{{"dsn": "{database_dsn}"}}'.encode()
    for name, count in (("work", 300), ("fail", 60), ("hang", 20), ("book", 40)):
        await submitter.submit(
            PythonTarget(name), count, timeout_seconds=0.5, retry_policy=AT_ONCE, payload=payload
        )

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
    outcomes = await truth.fetch(
        "SELECT DISTINCT outcome FROM gnomon.all_executions ORDER BY outcome"
    )
    assert [row["outcome"] for row in outcomes] == [
        OutcomeKind.SUCCEEDED, OutcomeKind.FAILED, OutcomeKind.TIMED_OUT, OutcomeKind.LOST,
    ]  # fmt: skip
