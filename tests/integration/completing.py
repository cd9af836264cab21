"""Handlers that complete their task in a transaction of their own, beside an effect: a row in the
table `effect`. Each call is kept under the `who` of its payload, like those of `handlers`."""

import asyncio
import contextlib
import threading
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import asyncpg
import psycopg
from asyncpg.pool import PoolConnectionProxy
from tests.integration.handlers import app, calls, gates, note

from gnomon.sdk.context import TaskContext
from gnomon.sdk.errors import ExecutionLost
from gnomon.sdk.signals import Reject, Snooze

Connection: TypeAlias = "asyncpg.Connection[Any]"

ready: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)  # a function is at its gate
runs: defaultdict[str, list[TaskContext]] = defaultdict(list)
raised: defaultdict[str, list[Exception]] = defaultdict(list)
thread_gates: defaultdict[str, threading.Event] = defaultdict(threading.Event)


@asynccontextmanager
async def connected(payload: Any) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(payload["dsn"])
    try:
        yield connection
    finally:
        await connection.close(timeout=5)


async def write(connection: "Connection | PoolConnectionProxy[Any]", payload: Any) -> None:
    await connection.execute("INSERT INTO public.effect VALUES ($1)", payload["who"])


async def at_the_gate(payload: Any) -> None:
    """Say that the function has come so far, and wait until it is let on."""
    ready[payload["who"]].set()
    await gates[payload["who"]].wait()


def keep(payload: Any, run: TaskContext) -> int:
    runs[payload["who"]].append(run)
    return note(payload)


@app.task
async def book(payload: Any, run: TaskContext) -> str:
    keep(payload, run)
    isolation = payload.get("isolation", "read_committed")
    async with connected(payload) as connection, connection.transaction(isolation=isolation):
        await write(connection, payload)
        await run.complete(connection, payload.get("result"))
    return "not the result"


@app.task
async def book_from_a_pool(payload: Any, run: TaskContext) -> None:
    keep(payload, run)
    async with (
        asyncpg.create_pool(payload["dsn"], min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        await write(connection, payload)
        await run.complete(connection)


@app.task
async def fail_at_first(payload: Any, run: TaskContext) -> None:
    first = keep(payload, run) == 1
    async with connected(payload) as connection, connection.transaction():
        await write(connection, payload)
        await run.complete(connection)
        if first:
            raise ValueError("thought better of it")


@app.task
async def roll_back_at_first(payload: Any, run: TaskContext) -> None:
    """Quietly: the function returns as if all were well."""
    first = keep(payload, run) == 1
    async with connected(payload) as connection:
        transaction = connection.transaction()
        await transaction.start()
        await write(connection, payload)
        await run.complete(connection)
        await (transaction.rollback() if first else transaction.commit())


@app.task
async def end_otherwise(payload: Any, run: TaskContext) -> None:
    """Complete, commit, and raise something all the same."""
    keep(payload, run)
    async with connected(payload) as connection, connection.transaction():
        await write(connection, payload)
        await run.complete(connection)
    raise {"snooze": Snooze(0.01), "reject": Reject("no"), "fail": ValueError("no")}[payload["how"]]


@app.task
async def wait_before_completing(payload: Any, run: TaskContext) -> None:
    first = keep(payload, run) == 1
    isolation = payload.get("isolation", "read_committed")
    async with connected(payload) as connection, connection.transaction(isolation=isolation):
        await write(connection, payload)
        if first:
            await at_the_gate(payload)
        try:
            await run.complete(connection)
        except Exception as error:
            raised[payload["who"]].append(error)
            raise


@app.task
async def complete_without_a_transaction(payload: Any, run: TaskContext) -> None:
    keep(payload, run)
    async with connected(payload) as connection:
        await write(connection, payload)
        await run.complete(connection)


@app.task
async def complete_in_two_transactions(payload: Any, run: TaskContext) -> None:
    keep(payload, run)
    async with connected(payload) as connection:
        with contextlib.suppress(ExecutionLost):
            for _ in range(2):
                async with connection.transaction():
                    await write(connection, payload)
                    await run.complete(connection)


@app.task
async def complete_twice_in_one_transaction(payload: Any, run: TaskContext) -> None:
    keep(payload, run)
    async with connected(payload) as connection, connection.transaction():
        await write(connection, payload)
        await run.complete(connection)
        await run.complete(connection)


@app.task
async def lose_the_connection_at_commit(payload: Any, run: TaskContext) -> None:
    first = keep(payload, run) == 1
    async with connected(payload) as connection, connection.transaction():
        await write(connection, payload)
        await run.complete(connection)
        if first:
            async with connected(payload) as other:
                await other.execute("SELECT pg_terminate_backend($1)", connection.get_server_pid())


@app.task
async def commit_at_the_gate(payload: Any, run: TaskContext) -> None:
    keep(payload, run)
    async with connected(payload) as connection, connection.transaction():
        await write(connection, payload)
        await run.complete(connection)
        await at_the_gate(payload)


@app.task
async def book_slowly(payload: Any, run: TaskContext) -> None:
    """Long enough for the next fire of a job to come meanwhile."""
    keep(payload, run)
    async with connected(payload) as connection, connection.transaction():
        await write(connection, payload)
        await connection.execute("SELECT pg_sleep(1.3)")
        await run.complete(connection)


# In threads


@app.task
def book_by_psycopg(payload: Any, run: TaskContext) -> None:
    first = keep(payload, run) == 1
    with psycopg.connect(payload["dsn"]) as connection:
        connection.execute("INSERT INTO public.effect VALUES (%s)", (payload["who"],))
        if payload.get("by") == "cursor":
            run.complete_by(connection.cursor().execute, payload.get("result"))
        else:
            run.complete_by(connection.execute, payload.get("result"))
        if first and payload.get("fails"):
            raise ValueError("thought better of it")


@app.task
def complete_by_autocommit(payload: Any, run: TaskContext) -> None:
    keep(payload, run)
    with psycopg.connect(payload["dsn"], autocommit=True) as connection:
        if payload.get("explicit"):
            with connection.transaction():
                connection.execute("INSERT INTO public.effect VALUES (%s)", (payload["who"],))
                run.complete_by(connection.execute)
        else:
            run.complete_by(connection.execute)


@app.task
def complete_by_what_was_lost(payload: Any, run: TaskContext) -> None:
    """Another connection takes the task over first."""
    keep(payload, run)
    with psycopg.connect(payload["dsn"]) as connection:
        connection.execute("INSERT INTO public.effect VALUES (%s)", (payload["who"],))
        with psycopg.connect(payload["dsn"], autocommit=True) as other:
            other.execute("UPDATE gnomon.task SET fence = fence + 1 WHERE id = %s", (run.task_id,))
        try:
            run.complete_by(connection.execute)
        except ExecutionLost as error:
            raised[payload["who"]].append(error)
            raise


@app.task
def hang_with_an_open_transaction(payload: Any, run: TaskContext) -> None:
    if keep(payload, run) > 1:
        return
    with psycopg.connect(payload["dsn"]) as connection:
        run.complete_by(connection.execute)
        thread_gates[payload["who"]].wait(60)


@app.task
def be_busy_with_an_open_transaction(payload: Any, run: TaskContext) -> None:
    if keep(payload, run) > 1:
        return
    with psycopg.connect(payload["dsn"]) as connection:
        run.complete_by(connection.execute)
        connection.execute("SELECT pg_sleep(60)")


__all__ = ["app", "calls", "gates", "raised", "ready", "runs", "thread_gates"]
