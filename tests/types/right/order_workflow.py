# pyright: strict
"""Workflows, as people write them: outputs have the types of what their handlers return."""

from dataclasses import dataclass
from typing import assert_type

from gnomon import Gnomon, RunHandle, Step, WorkflowRunInfo, all_of, webhook

app = Gnomon()


@dataclass
class Order:
    id: str
    lines: list[str]


@dataclass
class Reservation:
    id: str
    cents: int


@app.task
async def reserve(order: Order) -> Reservation:
    return Reservation(order.id, len(order.lines))


@app.task
def charge(order_id: str, cents: int) -> int:
    return cents


@app.task
async def ship(line: str, number: int = 0) -> str:
    return line


@app.workflow(deadline="1h")
def order(order: Order, note: str = "") -> str:
    reserved = reserve.step(order)
    assert_type(reserved, Step[Reservation])
    assert_type(reserved.output.cents, int)
    charged = charge.options(retries=2).step(order.id, cents=reserved.output.cents)
    shipped = ship.step(order.lines[0]).after(charged).named("first")
    assert_type(shipped, Step[str])
    shipped.only_if(all_of(charged.output > 0, order.id != "o-0"))
    webhook("tell", "https://example.com", {"note": note}).when("all_done").on_failure("skip")
    return shipped.output


@app.workflow
def nightly() -> None:
    ship.step("all")


async def start(given: Order) -> None:
    run = await order.start(given)
    assert_type(run, RunHandle[str])
    assert_type(await run.result(timeout="1m"), str)
    assert_type(order.options(key="o-1").start_sync(given, note="n").result_sync(), str)
    assert_type(await run.run(), WorkflowRunInfo)
    await run.cancel(interrupt=True)
    await (await nightly.start()).pause()
