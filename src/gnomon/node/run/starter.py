"""Asks the store, for many slots at once, whether their tasks may begin."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from gnomon.chores import Troubles
from gnomon.model.errors import StoreError
from gnomon.pipe.envelope import Delivery, FencedKey

log = structlog.get_logger("gnomon.node.run")

Begin = Callable[[Sequence[Delivery]], Awaitable[set[FencedKey]]]


class Starter:
    """The consent that some tasks need before they are called: committed on their row, so that
    whoever finds it later knows that the call may have been made. While one question is under
    way the next ones gather, so a thousand slots cost a few statements."""

    def __init__(self, begin: Begin, troubles: Troubles) -> None:
        self._troubles = troubles
        self._begin = begin
        self._asking: list[tuple[Delivery, asyncio.Future[bool]]] = []
        self._asked = asyncio.Event()

    async def may_begin(self, delivery: Delivery) -> bool:
        """Whether the call may be made now. Where PostgreSQL cannot be asked it may not: the
        task is released, whether or not it was marked."""
        return await self.ask(delivery)

    def ask(self, delivery: Delivery) -> "asyncio.Future[bool]":
        """The same for one who does not wait."""
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._asking.append((delivery, answer))
        self._asked.set()
        return answer

    async def run(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            asking, self._asking = self._asking, []
            consent = await self._consent([delivery for delivery, _ in asking])
            for delivery, answer in asking:
                if not answer.done():  # its slot may have been told to stop
                    answer.set_result((delivery.key, delivery.fence) in consent)

    async def _consent(self, deliveries: Sequence[Delivery]) -> set[FencedKey]:
        try:
            return await self._troubles.noting("begin", self._begin(deliveries))
        except StoreError as error:
            log.warning("tasks may not begin: their rows cannot be marked", why=str(error))
            return set()
