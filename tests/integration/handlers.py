"""Handlers that nodes under test run. Each call is kept under the `who` of its payload."""

import asyncio
import sys
import time
from collections import defaultdict
from typing import Any

from opentelemetry import trace

from gnomon.sdk.app import Gnomon
from gnomon.sdk.executing.context import TaskContext
from gnomon.sdk.signals import Reject, Snooze

app = Gnomon()

calls: defaultdict[str, list[Any]] = defaultdict(list)
gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)


def note(payload: Any) -> int:
    """Keep a call; gives how many there were."""
    calls[payload["who"]].append(payload)
    return len(calls[payload["who"]])


@app.task
async def echo(payload: Any) -> Any:
    note(payload)
    return payload.get("returns")


@app.task
def echo_in_a_thread(payload: Any) -> Any:
    note(payload)
    return payload.get("returns")


@app.task
async def wait_at_the_gate(payload: Any) -> None:
    note(payload)
    await gates[payload["who"]].wait()


@app.task
async def ignore_being_told_to_stop(payload: Any) -> str:
    if note(payload) > 1:
        return "again"
    while not gates[payload["who"]].is_set():
        try:
            await gates[payload["who"]].wait()
        except asyncio.CancelledError:
            continue
    return "stubborn"


@app.task
def block_a_thread(payload: Any) -> None:
    note(payload)
    deadline = time.monotonic() + 10
    while not gates[payload["who"]].is_set() and time.monotonic() < deadline:
        time.sleep(0.01)


@app.task
async def report_progress(payload: Any, ctx: TaskContext) -> None:
    for number in range(5):
        ctx.progress(number / 10, "not seen by anybody")
    ctx.progress(0.4, "four of ten")
    await wait_at_the_gate(payload)


@app.task
def report_progress_in_a_thread(payload: Any, ctx: TaskContext) -> None:
    ctx.progress(0.4, "four of ten")
    block_a_thread(payload)


@app.task
async def snooze_once(payload: Any) -> str:
    if note(payload) == 1:
        raise Snooze(0.05)
    return "awake"


@app.task
async def snooze_for_ever(payload: Any) -> None:
    note(payload)
    raise Snooze(float("inf"))


@app.task
async def reject(payload: Any) -> None:
    note(payload)
    raise Reject("no use")


@app.task
async def fail_with_a_nul(payload: Any) -> None:
    note(payload)
    raise ValueError("before\x00after \udcff")


@app.task
def exit_the_process(payload: Any) -> None:
    note(payload)
    sys.exit(3)


@app.task
async def exit_the_process_async(payload: Any) -> None:
    note(payload)
    sys.exit(3)


@app.task
def stop_iterating(payload: Any) -> None:
    note(payload)
    next(iter(()))


@app.task
async def be_cancelled(payload: Any) -> None:
    note(payload)
    raise asyncio.CancelledError


@app.task
async def return_a_lot(payload: Any) -> str:
    note(payload)
    return "x" * 100_000


@app.task
async def return_nonsense(payload: Any) -> object:
    note(payload)
    return object()


@app.task
async def return_nul(payload: Any) -> str:
    note(payload)
    return "a\x00b"


def _span(ctx: TaskContext) -> tuple[str, str, str]:
    span = trace.get_current_span().get_span_context()
    return f"{span.trace_id:032x}", f"{span.span_id:016x}", ctx.correlation_id


@app.task
async def tell_its_span(ctx: TaskContext, payload: Any) -> tuple[str, str, str]:
    return _span(ctx)


@app.task
def tell_its_span_in_a_thread(ctx: TaskContext, payload: Any) -> tuple[str, str, str]:
    return _span(ctx)


@app.task(process=True)
def tell_its_span_in_a_process(ctx: TaskContext, payload: Any) -> tuple[str, str, str]:
    return _span(ctx)


@app.task
async def stumble(payload: Any) -> None:
    if note(payload) == 1:
        raise RuntimeError("the first time")
