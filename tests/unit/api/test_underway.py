"""Where all places are taken, whoever sends slowly gives way."""

import asyncio
from typing import Any

from tests.settings import settings_with
from tests.waiting import eventually

from gnomon.api.http.bounds.bodies import BODY, Bodies
from gnomon.api.http.bounds.connections import Client
from gnomon.api.http.bounds.dropping import Dropping
from gnomon.api.http.bounds.refusals import Refusals
from gnomon.api.http.bounds.request_limits import RequestLimits
from gnomon.api.http.bounds.under_way import RequestsUnderWay
from gnomon.clock import SystemClock
from gnomon.observe.metrics.api import ApiMetrics

MOST = 4


class Served:
    """An application that reads a body of which nothing comes, or answers at once."""

    def __init__(self, body_seconds: float) -> None:
        self.clients: set[Client] = set()
        settings, clock = settings_with(api_body_seconds=body_seconds), SystemClock()
        self.bodies = Bodies(settings, clock, MOST)
        self.late = 0
        self._asked = 0
        self._app = RequestsUnderWay(
            self._answer,
            self.clients,
            self.bodies,
            MOST,
            RequestLimits(settings.api, clock, None, ApiMetrics(), MOST),
            Dropping(self.bodies, Refusals(clock)),
        )

    async def ask(self, path: str = "/") -> list[int]:
        """What was answered, by the application or instead of it."""
        self._asked += 1
        answered: list[int] = []

        async def send(event: Any) -> None:
            if event["type"] == "http.response.start":
                answered.append(event["status"])

        scope: Any = {"path": path, "client": ("127.0.0.1", self._asked), "headers": []}
        await self._app(scope, _nothing_comes, send)
        return answered

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/half":
            scope[BODY] = body = self.bodies.begin("a", 100)
            try:
                await receive()
            except asyncio.CancelledError:
                if not body.late:
                    raise
                self.late += 1
        if scope["path"] == "/long":
            await asyncio.Event().wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})


async def _nothing_comes() -> Any:
    await asyncio.Event().wait()


async def half_sent(
    served: Served, group: asyncio.TaskGroup, number: int = MOST
) -> "list[asyncio.Task[Any]]":
    """All places are taken, so many of them by bodies that do not come."""
    paths = ["/half"] * number + ["/long"] * (MOST - number)
    asked = [group.create_task(served.ask(path)) for path in paths]

    async def all_taken() -> bool:
        return len(served.clients) == MOST

    await eventually(all_taken)
    return asked


async def test_where_none_is_slow_whoever_asks_for_more_is_told_so() -> None:
    served = Served(body_seconds=600.0)
    async with asyncio.TaskGroup() as group:
        asked = await half_sent(served, group, MOST // 4)
        assert await served.ask() == [503]
        assert await served.ask("/healthz") == [200]
        assert served.late == 0
        for task in asked:
            task.cancel()


async def test_where_most_are_bodies_that_arrive_the_longest_arriving_gives_way() -> None:
    served = Served(body_seconds=600.0)  # none of them is slow
    async with asyncio.TaskGroup() as group:
        asked = await half_sent(served, group)

        async def first_has_gone() -> bool:
            return asked[0].done()

        assert await served.ask() == [200]
        await eventually(first_has_gone)
        assert served.late == 1
        assert not any(task.done() for task in asked[1:])
        for task in asked:
            task.cancel()


async def test_each_further_request_takes_the_place_of_a_slow_body() -> None:
    served = Served(body_seconds=5.0)  # slow after a second
    async with asyncio.TaskGroup() as group:
        asked = await half_sent(served, group, MOST // 4)

        async def answered() -> bool:
            return await served.ask() == [200]

        async def has_gone() -> bool:
            return len(served.clients) == MOST - 1

        await eventually(answered)
        await eventually(has_gone)
        assert served.late == 1, "no more than was needed"
        assert await served.ask() == [200]
        assert served.late == 1, "there was a place"
        for task in asked:
            task.cancel()
