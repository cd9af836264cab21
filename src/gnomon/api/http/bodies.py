"""Request bodies within bounds: of the bytes that all of them hold, of how many arrive at once, and
of the time that each may take for that.

A body counts with what has arrived of it, until its request is answered. Small and large ones have
a budget each, so that neither keeps the other out. One that grows large is admitted as a whole,
with all that it may still bring: otherwise several could hold a part of the budget each, and none
could ever end. What does not fit waits; bodies that arrive slowly do not keep others waiting.

Even one that brings nothing is a request under way. So no tenant has more than a share of those
that arrive, or wait for room: otherwise half-sent ones of one tenant would keep all others out.
"""

import asyncio
from collections.abc import Iterator
from itertools import islice

from gnomon.api.http.problems import NoRoom, TooManyBodies
from gnomon.api.http.shared_budget import SharedBudget, Waiter
from gnomon.clock import Clock
from gnomon.settings import Settings

BODY = "gnomon.body"  # where the body of a request is found in its scope
NOBODY = ""  # the tenant of a body of which nothing is kept
SMALL_BYTES = 64 * 1024
PACED_BYTES = 1024 * 1024  # so much, or the rest, has to arrive within `body_seconds`
_HURRY = 0.2  # the part of that time that a slow body has while others wait for what it holds


class Body:
    """One that is arriving, or is being worked on."""

    __slots__ = (
        "gave_way", "late", "paced", "paced_at", "reader", "received", "tenant_id", "total",
    )  # fmt: skip

    def __init__(self, tenant_id: str, total: int, reader: "asyncio.Task[object] | None") -> None:
        self.tenant_id = tenant_id
        self.total = total  # what was announced, or the most that it may be
        self.reader = reader  # until its end: they would keep each other in memory
        self.late = False  # and so its reader was cancelled
        self.gave_way = False  # it was not late at all, but had to go for another
        self.received = 0
        self.paced = 0  # what had been received when its time was last counted anew
        self.paced_at = 0.0


class Bodies:
    """All bodies of one process. To be used from its loop."""

    def __init__(self, settings: Settings, clock: Clock, requests: int) -> None:
        """`requests`: how many may be under way at once."""
        self._clock = clock
        self._seconds = settings.api.body_seconds
        small = settings.api.body_memory_bytes // 4
        large = settings.api.body_memory_bytes - small
        if settings.auth.enabled:
            self._small = SharedBudget(small, small // 2)
            self._large = SharedBudget(large, max(large // 2, settings.api.largest_body_bytes))
            self._places = SharedBudget(requests, max(requests // 2, 1))
        else:  # there is one tenant, and nobody else needs the other half
            self._small, self._large = SharedBudget(small, small), SharedBudget(large, large)
            self._places = SharedBudget(requests, requests)
        self._arriving: dict[Body, None] = {}  # in the order of `paced_at`
        self._looking = False

    @property
    def held_bytes(self) -> int:
        """How much of the budget is taken."""
        return self._small.held + self._large.held

    def begin(self, tenant_id: str, total: int) -> Body:
        """The running task begins to read a body. Raises TooManyBodies."""
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
        """So much more has arrived."""
        body.received += size
        if body.received - body.paced >= PACED_BYTES:
            self._pace(body)

    def take_small(self, body: Body, size: int) -> bool:
        """All of a body has arrived at once. Whether it is small and has room without waiting."""
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
        """Nothing of it is kept, but it is still arriving."""
        self._small.give_back(body)
        self._large.give_back(body)
        self._pace(body)

    def complete(self, body: Body) -> None:
        """All of it has arrived."""
        self._arrives_no_more(body)
        if self._large.of(body) > body.received:
            self._large.give_back(body, keep=body.received)

    def give_back(self, body: Body) -> None:
        """Whatever it holds, at its end. May be called again."""
        self._arrives_no_more(body)
        body.reader = None
        self._small.give_back(body)
        if body.received > SMALL_BYTES:
            self._large.give_back(body)

    def end_slow(self, number: int) -> int:
        """End so many of the bodies that arrive slowly. Gives how many there were to end."""
        slow = [*islice(self._slow(), number)]
        for body in slow:
            self._end(body)
        return len(slow)

    def end_longest(self, others: int) -> bool:
        """End the body that has arrived for longest, slow or not, where more than `others` arrive:
        so many at once are not sent to be read, and those who are renew them before they are slow.
        """
        if len(self._arriving) <= others:
            return False
        body = next(iter(self._arriving))
        body.gave_way = True
        self._end(body)
        return True

    def _look(self) -> None:
        """End what is late, and look again when the next one could be. One timer for all: one for
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
        """To wait is no fault of the body's: its own time does not run meanwhile."""
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
        """End slow bodies that hold what is missing."""
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
        """What was due by now has arrived: the next part has all its time."""
        self._arriving.pop(body, None)
        self._arriving[body] = None
        body.paced, body.paced_at = body.received, self._clock.monotonic()

    def _arrives_no_more(self, body: Body) -> None:
        self._arriving.pop(body, None)
        self._places.give_back(body)

    def _end(self, body: Body) -> None:
        self._arrives_no_more(body)
        assert body.reader is not None, "what arrives is being read"
        body.late = True
        body.reader.cancel()
