"""More tasks than a node may hold in memory: due at once, and due tomorrow.

`GNOMON_FULL=1` runs the sizes that are promised; the default ones fit into every test run.
"""

import os
import time
from uuid import UUID

import pytest
from tests.system.conftest import NewProcess
from tests.system.harness import Receiver, Submitter, Truth, eventually, judge, percentiles

FULL = os.environ.get("GNOMON_FULL") == "1"
DUE_AT_ONCE = 200_000 if FULL else 20_000
TOMORROW = 1_000_000 if FULL else 50_000
PROBES = 1000 if FULL else 200
MOST_MEMORY = 300 * 1024 * 1024
MEGABYTE = 1024 * 1024

pytestmark = [pytest.mark.system, pytest.mark.timeout(900 if FULL else 120)]


async def test_a_backlog_drains_in_bounded_memory(
    new_node: NewProcess, submitter: Submitter, receiver: Receiver, truth: Truth
) -> None:
    ids = await submitter.submit(receiver.url, DUE_AT_ONCE)
    began = time.monotonic()
    node = new_node("node")

    async def all_called() -> bool:
        return len(receiver.calls) >= DUE_AT_ONCE

    async def drained() -> bool:
        return bool(await truth.value("SELECT NOT EXISTS (SELECT FROM gnomon.task)"))

    await eventually(all_called, timeout=600 if FULL else 100)
    await eventually(drained)
    took, memory = time.monotonic() - began, node.peak_memory()
    print(
        f"{DUE_AT_ONCE} due at once: drained in {took:.1f} s ({DUE_AT_ONCE / took:.0f}/s, the "
        f"start of the node included), {memory / MEGABYTE:.0f} MB at the peak"
    )
    assert memory < MOST_MEMORY
    assert await judge(truth, ids, receiver) == (set(), set(), set(), set(), set())


async def test_tasks_for_tomorrow_cost_nothing_today(
    new_node: NewProcess, submitter: Submitter, receiver: Receiver, truth: Truth
) -> None:
    node = new_node("node")
    await node.started()
    await _start_delays(submitter, receiver, truth)  # connections and caches are warm after this
    empty = await _start_delays(submitter, receiver, truth)
    before = node.peak_memory()
    await submitter.submit(receiver.url, TOMORROW, delay=24 * 3600.0)
    await truth.fetch("ANALYZE gnomon.task")
    full = await _start_delays(submitter, receiver, truth)
    after = node.peak_memory()
    node.terminate()
    assert await node.code(timeout=20) == 0
    node.start()  # reads what is coming from the beginning
    await node.started()
    fresh = await _start_delays(submitter, receiver, truth)
    restarted = node.peak_memory()
    print(f"start delay, nothing else scheduled: {percentiles(empty)}; {before / MEGABYTE:.0f} MB")
    print(f"with {TOMORROW} for tomorrow: {percentiles(full)}; {after / MEGABYTE:.0f} MB")
    print(f"after a restart: {percentiles(fresh)}; {restarted / MEGABYTE:.0f} MB")
    assert after - before < 16 * MEGABYTE
    assert restarted - before < 16 * MEGABYTE
    assert await truth.value("SELECT count(*) FROM gnomon.task") == TOMORROW


async def _start_delays(submitter: Submitter, receiver: Receiver, truth: Truth) -> list[float]:
    """From due to called, for tasks that are due a little later, one after the other."""
    ids: list[UUID] = []
    for number in range(PROBES):
        ids += await submitter.submit(receiver.url, 1, delay=0.5 + number * 0.002)
    await eventually(lambda: truth.completed(ids))
    wanted = set(ids)
    return [c.at - c.scheduled_for for c in receiver.calls if c.webhook_id in wanted]
