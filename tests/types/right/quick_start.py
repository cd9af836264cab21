# pyright: strict
"""The quick start, as people write it. Type checkers must accept it under their strictest rules."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import assert_type

from gnomon import (
    BatchProgress,
    Depends,
    Gnomon,
    Handle,
    Prepared,
    Reject,
    Snooze,
    Status,
    TaskContext,
    TaskFailed,
    TaskInfo,
)

app = Gnomon()


@dataclass
class Receipt:
    message_id: str


@app.task(retries=5, timeout="30s", priority="high")
async def send_email(user_id: str, template: str = "welcome") -> Receipt:
    if not user_id:
        raise Reject("nobody to write to")
    if template == "later":
        raise Snooze(30)
    return Receipt(f"{template}-{user_id}")


@app.task
def resize(width: int) -> list[int]:
    return [width]


@app.task
async def with_context(ctx: TaskContext, day: str) -> int:
    return ctx.attempt


@app.task(process=True)
def in_a_process(ctx: TaskContext) -> str:
    return str(ctx.task_id)


def pool() -> str:
    return "pool"


@app.task
async def with_a_dependency(user_id: str, *, db: str = Depends(pool)) -> None:
    assert db


@app.cron("0 9 * * MON-FRI", timezone="America/New_York", overlap="skip")
async def report(ctx: TaskContext) -> None:
    ctx.logger.info("reporting")


async def submit(users: Iterable[str]) -> None:
    handle = await send_email.submit(user_id="u_1")
    assert_type(handle, Handle[Receipt])
    handle = await send_email.options(delay="10m", key="welcome-u_1").submit("u_1", "bye")
    assert_type(await handle.result(timeout="1m"), Receipt)
    assert_type(await handle.status(), Status)
    assert_type(await handle.task(), TaskInfo)
    assert_type(send_email.submit_sync(user_id="u_1"), Handle[Receipt])
    assert_type(send_email.prepare(user_id="u_1"), Prepared[Receipt])
    await app.submit_many(send_email.prepare(user_id=u) for u in users)
    await app.submit_many(prepared(users), batch_size=500, key="all", progress=seen)
    assert_type(resize.options(at=datetime.now(UTC)).submit_sync(3).result_sync(), list[int])
    assert_type(await (await with_context.submit("monday")).result(), int)
    assert_type(in_a_process.submit_sync().result_sync(), str)
    await with_a_dependency.submit("u_1")
    assert_type(app.handle(handle.id, send_email), Handle[Receipt])
    await report.submit()


async def prepared(users: Iterable[str]) -> AsyncIterator[Prepared[Receipt]]:
    for user in users:
        yield send_email.prepare(user)


def seen(done: BatchProgress) -> None:
    print(done.submitted)


async def call() -> None:
    """A plain call stays a plain call."""
    assert_type(await send_email("u_1"), Receipt)
    assert_type(resize(3), list[int])


def failures(handle: Handle[Receipt]) -> str | None:
    try:
        return handle.result_sync(timeout=5).message_id
    except TaskFailed as error:
        return error.traceback
