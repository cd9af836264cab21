"""Waits for tasks to end, for all callers of a process by one look-up at a time.

A caller that waits costs a key in the next look-up, and no connection of its own. While nobody
waits, nothing is asked.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from gnomon.clock import Clock
from gnomon.model.errors import Overloaded, WaitersFull
from gnomon.model.tasks.task import TaskKey

LEAST_PAUSE, MOST_PAUSE = 0.05, 0.25  # seconds between two look-ups
_MOST_TIME = 0.1  # the part of the time that may go into look-ups
MOST_WAITERS = 2_000


class Unended(Protocol):
    """A store of tasks, or of runs of workflows."""

    async def unended(self, keys: Sequence[TaskKey]) -> set[TaskKey]:
        """Those that have not ended."""


class EndWatch:
    """The tasks, or runs, whose ends are waited for, while `look` and `rest` take turns."""

    def __init__(self, store: Unended, clock: Clock, requests: int) -> None:
        """`requests`: how many may be in progress at once. Most of them must not be waiting."""
        self._store = store
        self._clock = clock
        self._most = max(min(requests // 4, MOST_WAITERS), 1)
        self._most_of_tenant = max(self._most // 2, 1)
        self._events: dict[TaskKey, set[asyncio.Event]] = {}
        self._of_tenant: Counter[str] = Counter()
        self._waited_for = asyncio.Event()
        self._pause = LEAST_PAUSE
        self._closed = False

    @contextmanager
    def waiting(self, key: TaskKey) -> Iterator[asyncio.Event]:
        """An event that is set once the task has ended, or the process is about to. Raises
        Overloaded, WaitersFull."""
        ended = asyncio.Event()
        if self._closed:
            ended.set()
            yield ended
            return
        self._check_room(key.tenant_id)
        self._events.setdefault(key, set()).add(ended)
        self._of_tenant[key.tenant_id] += 1
        self._waited_for.set()
        try:
            yield ended
        finally:
            self._leave(key, ended)

    def _check_room(self, tenant_id: str) -> None:
        if self._of_tenant[tenant_id] >= self._most_of_tenant:
            raise Overloaded(
                f"{self._most_of_tenant} requests of this tenant wait for tasks to end already; "
                "ask without `wait`, or later"
            )
        if self._of_tenant.total() >= self._most:
            raise WaitersFull(self._most)

    def _leave(self, key: TaskKey, ended: asyncio.Event) -> None:
        events = self._events[key]
        events.discard(ended)
        if not events:
            del self._events[key]
        self._of_tenant[key.tenant_id] -= 1
        if not self._of_tenant[key.tenant_id]:
            del self._of_tenant[key.tenant_id]
        if not self._events:
            self._waited_for.clear()

    async def look(self) -> None:
        """Tells those whose tasks have ended."""
        keys = list(self._events)
        if not keys:
            return
        began = self._clock.monotonic()
        unended = await self._store.unended(keys)
        for key in keys:
            if key not in unended:
                for ended in self._events.get(key, ()):
                    ended.set()
        took = self._clock.monotonic() - began
        self._pause = min(max(took / _MOST_TIME, LEAST_PAUSE), MOST_PAUSE)

    async def rest(self) -> None:
        """Waits until the next look-up is due: a pause, and somebody who waits."""
        await self._clock.sleep(self._pause)
        await self._waited_for.wait()

    def close(self) -> None:
        """Lets everybody go on at once, now and from now on."""
        self._closed = True
        for events in self._events.values():
            for ended in events:
                ended.set()
