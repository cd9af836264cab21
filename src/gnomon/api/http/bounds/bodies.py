"""Bounds request bodies: the bytes in memory, the number that arrive at once, and the time of each.

A body counts with the bytes that have arrived, until its request is answered. Small and large
bodies have separate budgets, so that neither keeps the other out. A body that grows large reserves
its whole size at once: otherwise several could hold a part of the budget each, and none could ever
finish. Bodies that do not fit wait; a body that arrives slowly is ended when others need its place.

No tenant has more than a share of the bodies that arrive or wait: otherwise one tenant's half-sent
bodies would keep all others out.
"""

import asyncio
from collections.abc import Iterator
from itertools import islice

from gnomon.api.http.answers.problems import NoRoom, TooManyBodies
from gnomon.api.http.bounds.shared_budget import SharedBudget, Waiter
from gnomon.clock import Clock
from gnomon.settings import Settings

BODY = "gnomon.body"  # the key of a request's Body in its scope
NOBODY = ""  # the tenant of a body that is read only to be dropped
SMALL_BYTES = 64 * 1024
PACED_BYTES = 1024 * 1024  # so much, or the rest, has to arrive within `body_seconds`
_HURRY = 0.2  # a body is slow after this part of that time, and ended if others need its place


class Body:
    """The body of a request that is arriving, or is being answered."""

    __slots__ = (
        "arrives", "gave_way", "late", "paced", "paced_at", "reader", "received", "tenant_id",
        "total",
    )  # fmt: skip

    def __init__(self, tenant_id: str, total: int, reader: "asyncio.Task[object] | None") -> None:
        self.tenant_id = tenant_id
        self.total = total  # as announced, or the most that it may be
        self.reader = reader  # None at the end: a cycle would keep both in memory
        self.arrives = True  # or waits, and has a place among those that do
        self.late = False  # and so its reader was cancelled
        self.gave_way = False  # it was not late, but ended to make room for another request
        self.received = 0
        self.paced = 0  # received when `paced_at` was last set
        self.paced_at = 0.0


class Bodies:
    """All bodies of one process. Not thread-safe: use it from the event loop."""

    def __init__(self, settings: Settings, clock: Clock, requests: int) -> None:
        """`requests`: how many may be in progress at once."""
        self._clock = clock
        self._seconds = settings.api.body_seconds
        small = settings.api.body_memory_bytes // 4
        large = settings.api.body_memory_bytes - small
        if settings.auth.enabled:
            self._small = SharedBudget(small, small // 2)
            self._large = SharedBudget(large, max(large // 2, settings.api.largest_body_bytes))
            self._places = SharedBudget(requests, max(requests // 2, 1))
        else:  # there is one tenant, and it may have all
            self._small, self._large = SharedBudget(small, small), SharedBudget(large, large)
            self._places = SharedBudget(requests, requests)
        self._arriving: dict[Body, None] = {}  # in the order of `paced_at`
        self._looking = False

    @property
    def held_bytes(self) -> int:
        """Bytes of the budgets in use."""
        return self._small.held + self._large.held

    def begin(self, tenant_id: str, total: int) -> Body:
        """Registers a body that the current asyncio task will read. Raises TooManyBodies."""
        body = Body(tenant_id, total, asyncio.current_task())
        if not self._places.try_take(body, tenant_id, 1):
            raise TooManyBodies
        body.paced_at = self._clock.monotonic()
        self._arriving[body] = None
        if not self._looking:
            self._looking = True
            asyncio.get_running_loop().call_later(self._seconds, self._look)
        return body

    def arrived(self, body: Body, size: int) -> None:
        """Counts `size` more bytes."""
        body.received += size
        if body.received - body.paced >= PACED_BYTES:
            self._pace(body)

    def take_small(self, body: Body, size: int) -> bool:
        """Admits a body that arrived in one part; False where it is large or would have to wait."""
        if size > SMALL_BYTES or not self._small.try_take(body, body.tenant_id, size):
            return False
        body.received = size
        self._arrives_no_more(body)
        return True

    async def room(self, body: Body, size: int) -> None:
        """Returns once there is room for the part that has just arrived. Raises NoRoom."""
        if body.received <= SMALL_BYTES:
            if not self._small.try_take(body, body.tenant_id, size):
                await self._wait(self._small, body, size)
        elif not self._large.of(body):
            if not self._large.try_take(body, body.tenant_id, body.total):
                await self._wait(self._large, body, body.total)
            self._small.give_back(body)

    def drop(self, body: Body) -> None:
        """Frees the memory of a body that goes on arriving, to be dropped."""
        self._small.give_back(body)
        self._large.give_back(body)
        self._pace(body)

    def complete(self, body: Body) -> None:
        """The whole body has arrived."""
        self._arrives_no_more(body)
        if self._large.of(body) > body.received:
            self._large.give_back(body, keep=body.received)

    def give_back(self, body: Body) -> None:
        """Frees everything that the body holds. May be called again."""
        self._arrives_no_more(body)
        body.reader = None
        self._small.give_back(body)
        if body.received > SMALL_BYTES:
            self._large.give_back(body)

    def end_slow(self, number: int) -> int:
        """Ends up to `number` bodies that arrive slowly; returns how many."""
        slow = [*islice(self._slow(), number)]
        for body in slow:
            self._end(body)
        return len(slow)

    def end_longest(self, others: int) -> bool:
        """Ends the body that has been arriving for longest, slow or not, if more than `others` are
        arriving: a client that means to be answered sends its body faster than that."""
        if len(self._arriving) <= others:
            return False
        body = next(iter(self._arriving))
        body.gave_way = True
        self._end(body)
        return True

    def _look(self) -> None:
        """Ends bodies that are late, and schedules the next look. One timer for all bodies: one for
        each would cost more than all the rest."""
        now = self._clock.monotonic()
        while self._arriving:
            body = next(iter(self._arriving))
            left = body.paced_at + self._seconds - now
            if left > 0:
                asyncio.get_running_loop().call_later(left, self._look)
                return
            self._end(body)
        self._looking = False

    async def _wait(self, budget: SharedBudget, body: Body, size: int) -> None:
        """Waits for room. Meanwhile the time limit of the body does not run."""
        self._arriving.pop(body, None)
        since = self._clock.monotonic()
        waiter = Waiter(body, body.tenant_id, size)
        budget.join(waiter)
        try:
            while not waiter.admitted.done():
                if self._clock.monotonic() >= since + self._seconds:
                    raise NoRoom
                if budget.is_first(waiter):
                    self._make_room(budget, waiter)
                await asyncio.wait([waiter.admitted], timeout=self._seconds * _HURRY)
        finally:
            budget.leave(waiter)
        self._pace(body)

    def _make_room(self, budget: SharedBudget, waiter: Waiter) -> None:
        """Ends slow bodies that hold what the waiter lacks."""
        over = budget.over_share(waiter.tenant_id, waiter.size)
        missing = over or waiter.size - budget.free
        for body in [*self._slow()]:
            if missing <= 0:
                return
            if budget.of(body) and (body.tenant_id == waiter.tenant_id or not over):
                missing -= budget.of(body)
                self._end(body)

    def _slow(self) -> Iterator[Body]:
        late = self._clock.monotonic() - self._seconds * _HURRY
        for body in self._arriving:
            if body.paced_at > late:
                return
            yield body

    def _pace(self, body: Body) -> None:
        """Starts the time limit of the next part."""
        if not body.arrives:
            return
        self._arriving.pop(body, None)
        self._arriving[body] = None
        body.paced, body.paced_at = body.received, self._clock.monotonic()

    def _arrives_no_more(self, body: Body) -> None:
        if body.arrives:
            body.arrives = False
            self._arriving.pop(body, None)
            self._places.give_back(body)

    def _end(self, body: Body) -> None:
        self._arrives_no_more(body)
        assert body.reader is not None, "what arrives is being read"
        body.late = True
        body.reader.cancel()
