"""Transactional handlers: each writes a row of the table `effect`, in the transaction that
completes its task. Each call is kept under the `who` of its payload, like those of `handlers`."""

import asyncio
from collections import defaultdict
from typing import Any

import asyncpg
from tests.integration.handlers import app, calls, gates, note

from gnomon.sdk.executing.context import TaskContext
from gnomon.sdk.signals import Snooze

ready: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)  # a function is at its gate
runs: defaultdict[str, list[TaskContext]] = defaultdict(list)


async def write(payload: Any, run: TaskContext) -> int:
    """Keep the call and write the effect; gives how many calls there were."""
    runs[payload["who"]].append(run)
    number = note(payload)
    if isolation := payload.get("isolation"):
        await run.connection.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
    await run.connection.execute("INSERT INTO public.effect VALUES ($1)", payload["who"])
    return number


async def at_the_gate(payload: Any) -> None:
    """Say that the function has come so far, and wait until it is let on."""
    ready[payload["who"]].set()
    await gates[payload["who"]].wait()


@app.task(delivery="exactly_once", transactional=True)
async def book(payload: Any, run: TaskContext) -> Any:
    await write(payload, run)
    return payload.get("result")


@app.task(delivery="exactly_once", transactional=True)
async def fail_at_first(payload: Any, run: TaskContext) -> None:
    if await write(payload, run) == 1:
        raise {"fail": ValueError("thought better of it"), "snooze": Snooze(0.01)}[payload["how"]]


@app.task(delivery="exactly_once", transactional=True)
async def wait_before_completing(payload: Any, run: TaskContext) -> None:
    if await write(payload, run) == 1:
        await at_the_gate(payload)


@app.task(delivery="exactly_once", transactional=True)
async def end_its_transaction(payload: Any, run: TaskContext) -> None:
    await write(payload, run)
    await run.connection.execute(payload["by"])


@app.task(delivery="exactly_once", transactional=True)
async def undo_a_part(payload: Any, run: TaskContext) -> None:
    await write(payload, run)
    inner = run.connection.transaction()
    await inner.start()
    await run.connection.execute("INSERT INTO public.effect VALUES ($1)", payload["who"])
    await inner.rollback()


@app.task(delivery="exactly_once", transactional=True)
async def lose_the_connection_at_first(payload: Any, run: TaskContext) -> None:
    if await write(payload, run) == 1:
        other = await asyncpg.connect(app.database)
        await other.execute("SELECT pg_terminate_backend($1)", run.connection.get_server_pid())
        await other.close()


@app.task(delivery="exactly_once", transactional=True)
async def look_around(payload: Any, run: TaskContext) -> None:
    """What a handler must not be able to do."""
    await write(payload, run)
    await run.connection.execute(payload["statement"])


@app.task(delivery="exactly_once", transactional=True)
async def book_slowly(payload: Any, run: TaskContext) -> None:
    """Long enough for the next fire of a job to come meanwhile."""
    await write(payload, run)
    await run.connection.execute("SELECT pg_sleep(1.3)")


@app.task(delivery="exactly_once", transactional=True)
async def hang_at_first(payload: Any, run: TaskContext) -> None:
    if await write(payload, run) == 1:
        await run.connection.execute("SELECT pg_sleep(60)")


@app.task
async def use_no_transaction(payload: Any, run: TaskContext) -> None:
    note(payload)
    await run.connection.execute("SELECT 1")


__all__ = ["app", "calls", "gates", "ready", "runs"]
