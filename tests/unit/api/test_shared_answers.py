"""Answers that readers share: made once at a time, and anew where that failed."""

import asyncio

import pytest
from litestar.response.base import ASGIResponse

from gnomon.api.http.answers.shared_answers import FRESH_SECONDS, MOST_BYTES, SharedAnswers
from gnomon.clock import SystemClock
from gnomon.usecases.live.shared_reads import MOST_KEPT


class Page:
    """Counts how often it is made; each is another one. Waits while it is held."""

    def __init__(self) -> None:
        self.made = 0
        self.size = 1
        self.fails: Exception | None = None
        self.go = asyncio.Event()
        self.go.set()

    async def make(self) -> ASGIResponse:
        self.made += 1
        await self.go.wait()
        if self.fails is not None:
            raise self.fails
        return ASGIResponse(body=b"x" * self.size)


@pytest.fixture
def page() -> Page:
    return Page()


class HandTurned:
    """Seconds that only the test lets pass."""

    def __init__(self) -> None:
        self.at = 0.0
        self.clock = SystemClock(lambda: self.at)


async def begun(shared: SharedAnswers, page: Page) -> "asyncio.Task[ASGIResponse]":
    """A request that makes the page, and waits."""
    before = page.made
    task = asyncio.ensure_future(shared.read("a", page.make))
    while page.made == before:
        await asyncio.sleep(0)
    return task


async def test_who_asks_at_once_gets_the_same_one(page: Page) -> None:
    shared = SharedAnswers(HandTurned().clock)
    page.go.clear()
    asked = [await begun(shared, page)]
    asked += [asyncio.ensure_future(shared.read("a", page.make)) for _ in range(50)]
    page.go.set()
    assert len({id(answer) for answer in await asyncio.gather(*asked)}) == 1
    assert page.made == 1
    await shared.read("b", page.make)
    assert page.made == 2, "another key is another answer"


async def test_it_is_kept_for_a_moment(page: Page) -> None:
    hand = HandTurned()
    shared = SharedAnswers(hand.clock)
    for at, made in ((0.0, 1), (FRESH_SECONDS - 0.01, 1), (FRESH_SECONDS, 2)):
        hand.at = at
        await shared.read("a", page.make)
        assert page.made == made


async def test_an_error_is_told_to_those_who_wait_and_not_kept(page: Page) -> None:
    shared = SharedAnswers(HandTurned().clock)
    page.fails = KeyError("no")
    page.go.clear()
    asked = [await begun(shared, page), asyncio.ensure_future(shared.read("a", page.make))]
    page.go.set()
    assert [type(each) for each in await asyncio.gather(*asked, return_exceptions=True)] == [
        KeyError,
        KeyError,
    ]
    assert page.made == 1
    page.fails = None
    await shared.read("a", page.make)
    assert page.made == 2


async def test_who_goes_away_leaves_the_others_an_answer(page: Page) -> None:
    shared = SharedAnswers(HandTurned().clock)
    page.go.clear()
    first = await begun(shared, page)
    others = [asyncio.ensure_future(shared.read("a", page.make)) for _ in range(3)]
    await asyncio.sleep(0)
    first.cancel()
    others[0].cancel()
    page.go.set()
    answers = await asyncio.gather(first, *others, return_exceptions=True)
    assert [type(each) for each in answers] == [
        *[asyncio.CancelledError] * 2,
        *[ASGIResponse] * 2,
    ]
    assert page.made == 2


async def test_no_more_is_kept_than_there_is_room_for(page: Page) -> None:
    shared = SharedAnswers(HandTurned().clock)
    page.size = MOST_BYTES + 1
    for _ in range(2):
        await shared.read("large", page.make)
    assert page.made == 2
    page.size = 1
    for key in range(MOST_KEPT + 1):
        await shared.read(key, page.make)
    made = page.made
    await shared.read(MOST_KEPT, page.make)
    assert page.made == made + 1
