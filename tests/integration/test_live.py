"""Live pages over HTTP: what a stream says, to whom, for how long, and what it costs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import pytest
from tests.integration.api_calls import LATER, TASKS, call, submitted
from tests.integration.identity import bearer, make_key, make_operator, make_tenant
from tests.integration.support import Connection
from tests.integration.test_dashboard import Api, guarded, shown, signed_in
from tests.integration.test_event_acknowledgements import entered, listed
from tests.waiting import eventually

from gnomon.access.principal import Role
from gnomon.model.insight.event_kinds import BREAKER_CLOSED, BREAKER_OPENED
from gnomon.store.postgres.database import Database
from gnomon.usecases.live.seats import MOST_OF_ONE

__all__ = ["guarded"]  # a fixture


class Stream:
    """An open stream, read event by event."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    def drop(self) -> None:
        """Closes its connection in the middle, as a browser does."""
        self._answer.close()

    async def event(self) -> tuple[str, str]:
        """The next one that is not about the badge; ("", "") at the end."""
        while (found := await self.next())[0].startswith("open-"):
            pass
        return found

    async def next(self) -> tuple[str, str]:
        name = data = ""
        async with asyncio.timeout(30):
            while line := (await self._answer.content.readline()).decode():
                if line.startswith("event: "):
                    name = line[7:].strip()
                elif line.startswith("data: "):
                    data = line[6:].strip()
                elif line == "\n" and name:
                    return name, data
        return "", ""

    async def says(self, topic: str) -> None:
        """Reads until it says that this topic has changed."""
        while True:
            name, data = await self.event()
            assert name == "changed", (name, data)
            if topic in data.split():
                return


@asynccontextmanager
async def watching(api: Api, topics: str, path: str = "/live") -> AsyncIterator[Stream]:
    async with api.get(path, params={"topics": topics}) as answer:
        assert answer.status == 200, await answer.text()
        assert answer.content_type == "text/event-stream"
        yield Stream(answer)


@asynccontextmanager
async def browsers(api: Api, number: int) -> AsyncIterator[list[Api]]:
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(aiohttp.ClientSession(api._base_url))
            for _ in range(number)
        ]


async def test_a_stream_says_what_changed_and_nothing_else(api: Api) -> None:
    async with watching(api, "tasks cron") as stream:
        assert await stream.event() == ("changed", "cron tasks")  # since the page was drawn
        await submitted(api)
        assert await stream.event() == ("changed", "cron tasks")
        await call(
            api, "POST", "/api/v1/cron-jobs", 201,
            {"name": "a", "interval_seconds": 3600, "task_type": "a", "callback_url": "http://x/"},
        )  # fmt: skip
        await stream.says("cron")  # beside others, where the slow tick or the roll-up came first


async def test_no_proxy_holds_events_back(api: Api) -> None:
    async with api.head("/live?topics=tasks") as answer:
        assert answer.headers["x-accel-buffering"] == "no"
        assert answer.headers["cache-control"] == "no-store"


async def test_a_stream_counts_open_events_for_the_badge(api: Api, connection: Connection) -> None:
    async with watching(api, "") as stream:
        assert await stream.next() == ("open-events", "0")
        await entered(connection, BREAKER_CLOSED, BREAKER_OPENED)
        assert await stream.next() == ("open-events", "1")
        body = {"event_ids": [event["event_id"] for event in await listed(api)]}
        await call(api, "POST", "/api/v1/events/acknowledge", 200, body)
        assert await stream.next() == ("open-events", "0")


async def test_one_task_is_watched_by_its_id(api: Api) -> None:
    tasks = [(await submitted(api))["task_id"] for _ in range(2)]
    async with watching(api, f"task:{tasks[0]}") as stream:
        await stream.says(f"task:{tasks[0]}")
        await call(api, "POST", f"{TASKS}/{tasks[0]}/pause", 200)
        await stream.says(f"task:{tasks[0]}")
        await call(api, "POST", f"{TASKS}/{tasks[0]}/cancel", 200)
        await stream.says(f"task:{tasks[0]}")


@pytest.mark.parametrize("topics", ["all", "task:1", " ".join(["tasks"] * 9)])
async def test_a_topic_that_nobody_knows_is_refused(shared_api: Api, topics: str) -> None:
    await shown(shared_api, f"/live?topics={topics.replace(' ', '+')}", 422)


async def test_others_changes_are_not_told(guarded: Api, database: Database) -> None:
    await make_tenant(database, "other")
    _, mine = await make_key(database)
    _, theirs = await make_key(database, "other")
    async with (
        signed_in(guarded, mine) as one,
        signed_in(guarded, theirs) as two,
        watching(one, "bulk nodes") as stream,
        watching(two, "tasks") as others,
    ):
        assert await stream.event() == ("changed", "bulk")  # nodes are the operator's
        await others.says("tasks")
        await call(guarded, "POST", TASKS, 202, LATER, headers=bearer(theirs))
        await others.says("tasks")
        asked = {"action": "cancel", "filter": {"tag": "x"}}
        await call(guarded, "POST", "/api/v1/bulk-operations", 202, asked, headers=bearer(mine))
        assert await stream.event() == ("changed", "bulk")


async def test_an_operator_watches_the_installation(guarded: Api, database: Database) -> None:
    _, key = await make_operator(database)
    async with signed_in(guarded, key) as browser:
        async with watching(browser, "nodes", "/live/installation") as stream:
            assert await stream.event() == ("changed", "nodes")
        await shown(browser, "/live", 403)


async def test_without_a_session_a_script_is_told_so(guarded: Api, database: Database) -> None:
    for path in ("/live?topics=tasks", "/live/installation", "/?fragment=1"):
        await shown(guarded, path, 401)
    await shown(guarded, "/", 303)
    _, key = await make_key(database, roles=[Role.SUBMIT])
    async with signed_in(guarded, key) as browser:
        await shown(browser, "/live", 403)


async def test_a_session_has_a_limit_of_streams(guarded: Api, database: Database) -> None:
    _, key = await make_key(database)
    async with signed_in(guarded, key) as browser, AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(watching(browser, "tasks")) for _ in range(MOST_OF_ONE)
        ]
        assert "close one of them" in await shown(browser, "/live?topics=tasks", 429)
        async with signed_in(guarded, key) as another, watching(another, "tasks") as stream:
            await stream.says("tasks")
        opened[0].drop()

        async def has_room() -> bool:
            async with browser.get("/live") as answer:
                return answer.status == 200

        await eventually(has_room)


async def test_without_sessions_many_pages_are_open_from_one_address(api: Api) -> None:
    """Of a proxy, say."""
    async with browsers(api, 2 * MOST_OF_ONE) as some, AsyncExitStack() as stack:
        for each in some:
            stream = await stack.enter_async_context(watching(each, "tasks"))
        await stream.says("tasks")


async def test_readers_of_the_same_page_share_what_is_read(
    api: Api, connection: Connection
) -> None:
    await submitted(api)
    async with browsers(api, 20) as some:
        texts = await asyncio.gather(*(shown(each, "/?fragment=1") for each in some))
    assert len(set(texts)) == 1
    assert texts[0].lstrip().startswith('<div id="live-part"')
    assert "<html" not in texts[0]
    assert "status:SCHEDULED" in texts[0]


async def test_a_page_that_takes_too_long_says_so(api: Api, superuser: Connection) -> None:
    async with superuser.transaction():
        await superuser.execute("LOCK TABLE gnomon.event IN ACCESS EXCLUSIVE MODE")
        text = await shown(api, "/", 503)
    assert "This took too long" in text
    assert "This took too long" not in await shown(api, "/")
