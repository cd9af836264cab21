"""Handlers whose results programs wait for: what each must answer follows from its number."""

import asyncio
import threading

import msgspec

from gnomon import Gnomon, TaskContext


class Answer(msgspec.Struct, frozen=True):
    """What a handler says of a number."""

    n: int
    square: int


class Doomed(Exception):
    """This handler always fails."""


def declare(app: Gnomon) -> None:
    """Make them handlers of an app."""
    for handler in (on_the_loop, in_a_thread, at_the_second_try, never):
        app.task(handler)
    app.task(process=True)(in_a_process)


def right(n: int) -> Answer:
    return Answer(n, n * n)


async def on_the_loop(n: int, seconds: float) -> Answer:
    await asyncio.sleep(seconds)
    return right(n)


def in_a_thread(n: int, seconds: float) -> Answer:
    threading.Event().wait(seconds)
    return right(n)


def in_a_process(n: int, seconds: float) -> Answer:
    threading.Event().wait(seconds)
    return right(n)


async def at_the_second_try(n: int, seconds: float, ctx: TaskContext) -> Answer:
    await asyncio.sleep(seconds)
    if ctx.attempt == 1:
        raise ValueError(f"{n} fails at first")
    return right(n)


async def never(n: int, seconds: float) -> Answer:
    await asyncio.sleep(seconds)
    raise Doomed(n)
