"""A program that submits tasks for handlers and waits for their results.

`python -m proof.campaigns.waiter <parent> <first number> <seconds> <rate>`, with GNOMON_URL.

It prints a line of JSON for each task that it has a result or a failure of, and at the end how many
were acknowledged. Whatever happens to the API meanwhile, it asks again.
"""

import asyncio
import random
import sys
import time
from typing import Any

import msgspec
from proof.campaigns.handlers import app

from gnomon import TaskFailed
from gnomon.client.errors import ApiUnreachable, Unavailable, WaitTimeout
from gnomon.node.run.parent import die_with_parent

KINDS = ("on_the_loop", "in_a_thread", "in_a_process", "at_the_second_try", "never")
_AGAIN_SECONDS = 0.2
_AWAY = (ApiUnreachable, Unavailable, WaitTimeout)


class Heard(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a program was told of one task in the end."""

    n: int
    kind: str
    seconds: float  # from the submission on
    answer: Any = None
    failure: str | None = None
    traceback: str | None = None
    wrong: str | None = None  # an error that is neither a result nor the failure of the task


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The last line of a program."""

    acknowledged: int


async def one(n: int, kind: str, seconds: float) -> Heard:
    """Submit a task and wait for what becomes of it."""
    began = time.monotonic()
    handler: Any = app.handlers[kind].options(key=f"waiter-{n}", retries=2, timeout=20.0)
    heard: dict[str, Any] = {}
    try:
        handle = await again(lambda: handler.submit(n=n, seconds=seconds))
        heard["answer"] = await again(lambda: handle.result(timeout=30.0))
    except TaskFailed as failed:
        heard |= {"failure": failed.last_error or str(failed), "traceback": failed.traceback}
    except Exception as error:  # noqa: BLE001 - whatever it is, the judge must hear of it
        heard["wrong"] = f"{type(error).__name__}: {error}"
    return Heard(n=n, kind=kind, seconds=time.monotonic() - began, **heard)


async def again(ask: Any) -> Any:
    """Until the API answers: it may be down, or its PostgreSQL."""
    while True:
        try:
            return await ask()
        except _AWAY:
            await asyncio.sleep(_AGAIN_SECONDS)


async def run(first: int, seconds: float, rate: float) -> None:
    chance = random.Random(first)
    until = time.monotonic() + seconds
    asking: list[asyncio.Task[Heard]] = []
    while time.monotonic() < until:
        kind, took = chance.choice(KINDS), chance.uniform(0.0, 0.5)
        task = asyncio.create_task(one(first + len(asking), kind, took))
        task.add_done_callback(lambda done: tell(done.result()))
        asking.append(task)
        await asyncio.sleep(1 / rate)
    await asyncio.gather(*asking)
    tell(Summary(acknowledged=len(asking)))


def tell(line: msgspec.Struct) -> None:
    print(msgspec.json.encode(line).decode(), flush=True)


if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    asyncio.run(run(int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])))
