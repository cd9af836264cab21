"""Workflows of an app, through the real engine on a virtual clock."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from tests.conftest import PostgresServer, fresh_database

from gnomon import (
    Gnomon,
    ResultUnavailable,
    WorkflowFailed,
    for_each,
    wait_for_signal,
    wait_for_time,
)
from gnomon.testing import NothingRuns, VirtualGnomon, virtual_gnomon

app = Gnomon()


@dataclass
class Reservation:
    id: str
    cents: int
    labels: list[str] = field(default_factory=list)


@app.task
async def reserve(order_id: str, items: list[str]) -> Reservation:
    return Reservation(f"r-{order_id}", 100 * len(items), [f"{{{{{each}" for each in items])


@app.task(retries=0)
async def charge(reservation: Reservation, cents: int) -> int:
    if cents > broken["above"]:
        raise ValueError(f"{cents} is too much")
    return cents


@app.task
async def tell(text: str) -> str:
    return text


broken = {"above": 10_000}


@app.workflow
def order(order_id: str, items: list[str], note: str = "{{none}}") -> str:
    reserved = reserve.step(order_id, items)
    charged = charge.step(reserved.output, reserved.output.cents)
    text = f"{order_id}: {charged.output}, {reserved.output.labels[0]}, {note}"
    return tell.step(text).output


@app.workflow
def skipping(cents: int) -> str:
    charged = charge.step(Reservation("r", 1), cents)
    return tell.step("much").only_if(charged.output > 50).output


@app.workflow
def approving(text: str) -> str:
    approved = wait_for_signal("approved", str, timeout="1h", otherwise="nobody")
    cooled = wait_for_time("2h").after(approved)
    return tell.step(f"{text} by {approved.output}").after(cooled).output


@app.task
async def words(text: str) -> list[str]:
    return text.split()


@app.workflow
def shouting(text: str, mark: str) -> list[str]:
    found = words.step(text)
    return for_each(found.output, lambda word: tell.step(f"{word}{mark}")).output


@pytest.fixture
async def g(postgres: PostgresServer) -> AsyncIterator[VirtualGnomon]:
    async with (
        fresh_database(postgres) as dsn,
        virtual_gnomon(app, database_url=dsn) as found,
    ):
        yield found


async def test_outputs_go_from_step_to_step(g: VirtualGnomon) -> None:
    run = await order.start("o-1", ["tea", "pot"])
    assert await run.result() == "o-1: 200, {{tea, {{none}}"
    assert await run.status() == "SUCCEEDED"
    assert {each.node: each.status for each in (await run.run()).nodes} == {
        "reserve": "COMPLETED",
        "charge": "COMPLETED",
        "tell": "COMPLETED",
    }


async def test_a_worker_registers_the_workflows_of_its_app(g: VirtualGnomon) -> None:
    assert [(each.name, each.version) for each in await g.client.list_workflows()] == [
        ("approving", 1),
        ("order", 1),
        ("shouting", 1),
        ("skipping", 1),
    ]
    run = await order.start("o-1", ["tea"])
    assert ((await run.run()).workflow, (await run.run()).version) == ("order", 1)


async def test_a_key_makes_one_run(g: VirtualGnomon) -> None:
    first, second = [await order.options(key="o-2").start("o-2", ["tea"]) for _ in range(2)]
    assert first == second
    assert len([each async for each in g.client.list_workflow_runs()]) == 1


async def test_a_failed_step_holds_the_run_up_until_it_is_retried(
    g: VirtualGnomon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(broken, "above", 150)
    run = await order.start("o-3", ["tea", "pot"])
    with pytest.raises(WorkflowFailed, match="charge: ValueError: 200 is too much") as failed:
        await run.result()
    assert failed.value.status == "FAILED"
    monkeypatch.setitem(broken, "above", 10_000)
    dead = next(each for each in failed.value.run.nodes if each.node == "charge")
    await g.client.retry_dead_letter(dead.task_id)
    assert await run.result() == "o-3: 200, {{tea, {{none}}"


async def test_a_step_is_skipped_where_its_condition_does_not_hold(g: VirtualGnomon) -> None:
    assert await (await skipping.start(70)).result() == "much"
    with pytest.raises(ResultUnavailable, match="its step tell is SKIPPED"):
        await (await skipping.start(30)).result()


async def test_a_run_is_paused_and_resumed(g: VirtualGnomon) -> None:
    run = await order.start("o-4", ["tea"])
    await run.pause()
    with pytest.raises(NothingRuns, match="is PAUSED"):
        await run.result()
    await run.resume()
    assert await run.result() == "o-4: 100, {{tea, {{none}}"


async def test_a_run_that_is_cancelled_ends(g: VirtualGnomon) -> None:
    run = await order.start("o-5", ["tea"])
    await run.cancel()
    with pytest.raises(WorkflowFailed, match="CANCELLED"):
        await run.result()


async def test_steps_wait_for_a_signal_and_for_a_time(g: VirtualGnomon) -> None:
    run, nobodys = await approving.start("tea"), await approving.start("pot")
    await g.drain()
    await run.signal("approved", "Ada")
    await g.advance("1h59m")
    assert await run.status() == "RUNNING"
    await g.advance("2m")
    assert await run.result() == "tea by Ada"
    await g.advance("1h")
    assert await nobodys.result() == "pot by nobody"


async def test_a_step_is_mapped_over_an_output(g: VirtualGnomon) -> None:
    run = await shouting.start("tea and {{pot", "!")
    assert await run.result() == ["tea!", "and!", "{{pot!"]
    assert await (await shouting.start("", "!")).result() == []
