"""Asks the gateway, with the next poll, whether tasks may begin."""

import asyncio
from collections.abc import Callable, Sequence

from gnomon.clock import Clock
from gnomon.model.errors import StoreUnavailable
from gnomon.pipe.envelope import Delivery, FencedKey
from gnomon.pipe.http.messages import StartGrant, TaskClaim
from gnomon.remote.messages import claim_of


class StartGrants:
    """`Begin` of a starter: the consent to start tasks that ask for it."""

    def __init__(self, clock: Clock, on_asked: Callable[[], None]) -> None:
        self._clock = clock
        self._on_asked = on_asked
        self._asked: dict[TaskClaim, bool | None] = {}  # None: not answered yet
        self._answered = asyncio.Event()

    def asked(self) -> list[TaskClaim]:
        """Those that wait for an answer."""
        return [fence for fence, answer in self._asked.items() if answer is None]

    def answered(self, answers: Sequence[StartGrant]) -> None:
        for answer in answers:
            fence = TaskClaim(answer.task_id, answer.fence)
            if fence in self._asked:
                self._asked[fence] = answer.granted
        if answers:
            self._answered.set()

    async def begin(self, deliveries: Sequence[Delivery]) -> set[FencedKey]:
        """The tasks that may begin. Raises StoreUnavailable where the gateway does not say so
        before all of them must be released."""
        latest = max(delivery.start_by for delivery in deliveries)
        self._asked = dict.fromkeys(map(claim_of, deliveries))
        self._on_asked()
        try:
            while self.asked():
                left = latest - self._clock.seconds()
                self._answered.clear()
                if left <= 0 or not await self._clock.wait(self._answered, left):
                    break
            granted = {(d.key, d.fence) for d in deliveries if self._asked[claim_of(d)]}
            if self.asked() and not granted:
                raise StoreUnavailable("the gateway did not answer in time")
            return granted
        finally:
            self._asked = {}
