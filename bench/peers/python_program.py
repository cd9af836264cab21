"""What the programs of the Python peers share. They run in environments of their own, without
Gnomon, so this needs the standard library alone. `program.cjs` and `river/main.go` do the same.

`PROGRAM install JSON` makes the peer's tables. `PROGRAM work JSON` prints a line when it is about
to take jobs, and takes them until it is told to stop. `PROGRAM load JSON` enqueues as the argument
says, and prints what came of it.
"""

import asyncio
import json
import math
import random
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Any

from bench.functions import CallRecorder

Settings = dict[str, Any]
Enqueue = Callable[[int, Sequence[int], datetime | None], Awaitable[None]]


@dataclass(frozen=True)
class Offer:
    """What to enqueue. It ends after `requests` or after `seconds`, whichever is first."""

    url: str
    settings: Settings
    first: int  # tasks are numbered from here on, in their payloads
    connections: int = 1
    tasks: int = 1  # in one call
    requests: int | None = None
    seconds: float | None = None
    pause: float = 0.0  # mean seconds between a call's end and the next call of a connection
    due_in: float | None = None  # seconds until all are due, at one instant; None: each at once


@dataclass(frozen=True)
class Work:
    """How to take jobs."""

    url: str
    settings: Settings
    records: str
    until_empty: bool  # all jobs are there already, and no more will come


class Offering:
    """Keeps all connections busy until it is over."""

    def __init__(self, offer: Offer, enqueue: Enqueue) -> None:
        self._offer = offer
        self._enqueue = enqueue
        # Off the second, where others are busy, and whole in milliseconds, which some peers keep.
        self.due_at = None if offer.due_in is None else math.floor(time() + offer.due_in) + 0.125
        self._left = sys.maxsize if offer.requests is None else offer.requests
        self._number = offer.first
        self._moments: list[tuple[float, float]] = []

    async def run(self) -> dict[str, Any]:
        began = time()
        ends_at = math.inf if self._offer.seconds is None else began + self._offer.seconds
        await asyncio.gather(
            *(self._keep_busy(place, ends_at) for place in range(self._offer.connections))
        )
        return {
            "accepted": len(self._moments) * self._offer.tasks,
            "began": began,
            "ended": max(answered for _, answered in self._moments),
            "due_at": self.due_at,
            "moments": self._moments if self._offer.pause else [],
        }

    async def _keep_busy(self, place: int, ends_at: float) -> None:
        due = None if self.due_at is None else datetime.fromtimestamp(self.due_at, UTC)
        while self._left > 0 and time() < ends_at:
            self._left -= 1
            numbers = range(self._number, self._number + self._offer.tasks)
            self._number += self._offer.tasks
            sent = time()
            await self._enqueue(place, numbers, due)
            self._moments.append((sent, time()))
            if self._offer.pause:
                # Uneven, so as not to fall into step with anything periodic.
                await asyncio.sleep(self._offer.pause * random.uniform(0.5, 1.5))


async def offer_all(offer: Offer, enqueue: Enqueue) -> None:
    print(json.dumps(await Offering(offer, enqueue).run()))


async def work_until_told(
    work: Work, run: Callable[[CallRecorder], Coroutine[Any, Any, None]]
) -> None:
    """Say that work begins, and do it until SIGTERM."""
    recorder, told = CallRecorder(Path(work.records)), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    print(json.dumps({"ready_at": time()}), flush=True)
    running = asyncio.create_task(run(recorder))
    stopping = asyncio.create_task(told.wait())
    await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()  # with its error
        await told.wait()
    recorder.flush()
    running.cancel()


def command(
    install: Callable[[str], Coroutine[Any, Any, None]],
    work: Callable[[Work], Coroutine[Any, Any, None]],
    load: Callable[[Offer], Coroutine[Any, Any, None]],
) -> Coroutine[Any, Any, None]:
    """What the command line asks for."""
    verb, argument = sys.argv[1], json.loads(sys.argv[2])
    if verb == "install":
        return install(argument["url"])
    if verb == "work":
        return work(Work(**argument))
    return load(Offer(**argument))
