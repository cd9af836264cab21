"""What the measures ask of a contender. Gnomon and each peer have an adapter behind it."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from bench.stage import Stage

Settings = dict[str, Any]


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What to enqueue, numbered in the payloads: `{"n": 17}`. It ends after `requests` or after
    `seconds`, whichever is first."""

    first: int
    connections: int = 1
    tasks: int = 1  # in one call
    requests: int | None = None
    seconds: float | None = None
    pause: float = 0.0  # mean seconds between a call's end and the next one of a connection
    due_in: float | None = None  # seconds until all are due, at one instant; None: each at once


class Offered(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. Moments are seconds since the epoch."""

    accepted: int  # tasks, numbered from the first on without a gap
    began: float
    ended: float
    due_at: float | None = None  # that instant
    moments: list[tuple[float, float]] = []  # call and answer of each, where there were pauses


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What the contender's server has used so far. None: it does not tell, or has none of it."""

    cpu: float | None  # seconds
    wal: int | None = None  # bytes
    dead: int | None = None  # row versions that were replaced or deleted, vacuumed since or not


class Worker(Protocol):
    """The one process that runs tasks."""

    pid: int
    ready_at: float  # seconds since the epoch: when it was about to take the first task


class Producer(Protocol):
    """Where tasks are enqueued, in the contender's own way, by a process of its own."""

    async def offer(self, offer: Offer) -> Offered: ...


class Place(Protocol):
    """A fresh database with the contender's schema."""

    @property
    def calls(self) -> Path:
        """The file of `bench.recorder` that the handler writes."""
        ...

    def producing(self) -> AbstractAsyncContextManager[Producer]: ...

    def working(self, *, until_empty: bool) -> AbstractAsyncContextManager[Worker]:
        """One worker process. `until_empty`: all tasks are stored, and no more will come."""
        ...

    async def unfinished(self) -> int: ...

    async def settled(self, timeout: float) -> float:
        """Wait until no task is unfinished; gives that moment."""
        ...

    async def reading(self, *, alone: bool = False) -> Reading:
        """What was used up to now. `alone`: the worker has ended; wait until its connections have,
        which tell the server last what they did."""
        ...


class Contender(Protocol):
    """Gnomon, or a peer."""

    name: str  # of its folder, and of the option --only
    title: str
    version: str
    choices: Sequence[Settings]  # the first is used, unless --tune finds another to be better
    single_connections: int  # of whoever enqueues one at a time
    bulk_connections: int
    most: int | None  # tasks in one measure: more would take many minutes
    remark: str  # what a reader has to know

    def place(self, stage: Stage, settings: Settings) -> AbstractAsyncContextManager[Place]: ...
