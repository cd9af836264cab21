"""How often those who watch are told, at the most and at the least. Counts, and no seconds."""

import asyncio
from contextlib import ExitStack

import pytest
from tests.integration.support import Connection
from tests.integration.test_event_acknowledgements import entered

from gnomon.clock import SystemClock
from gnomon.model.errors import StoreError
from gnomon.model.insight.event_kinds import BREAKER_OPENED
from gnomon.model.insight.topics import topics_in
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.live.signs import PostgresSigns
from gnomon.usecases.live.seats import StreamSeats
from gnomon.usecases.live.watch import SLOW_SECONDS, TOLD_A_SECOND, LiveWatch, Viewer

REQUESTS = 5_000


class HandTurnedClock(SystemClock):
    """Seconds pass only while somebody sleeps, or as the test lets them."""

    def __init__(self) -> None:
        self.at = 0.0
        super().__init__(lambda: self.at)

    async def sleep(self, seconds: float) -> None:
        self.at += seconds


def opened(live: LiveWatch, pages: int, stack: ExitStack) -> list[Viewer]:
    watched = topics_in("tasks events")
    return [stack.enter_context(live.watching(None, DEFAULT_TENANT, watched)) for _ in range(pages)]


@pytest.mark.parametrize(("pages", "looks"), [(1, 60), (50, 24), (150, 8)])
async def test_in_a_storm_of_changes_pages_are_told_at_a_bounded_rate(
    database: Database, connection: Connection, pages: int, looks: int
) -> None:
    clock = HandTurnedClock()
    live = LiveWatch(PostgresSigns(database), clock, StreamSeats(REQUESTS))
    with ExitStack() as stack:
        viewers, told = opened(live, pages, stack), []
        while clock.at < 60:
            await entered(connection, BREAKER_OPENED)
            await live.look()
            told.append(sum(bool(viewer.take()) for viewer in viewers))
            await live.rest()
    assert told == [pages] * looks, "everybody, whenever there is something to say"
    assert sum(told) <= TOLD_A_SECOND * 60
    assert 60 / looks <= SLOW_SECONDS


async def test_pages_ask_from_time_to_time_also_while_no_sign_can_be_read(
    database: Database, superuser: Connection
) -> None:
    clock = HandTurnedClock()
    live = LiveWatch(PostgresSigns(database), clock, StreamSeats(REQUESTS))
    with ExitStack() as stack:
        (viewer,) = opened(live, 1, stack)
        await live.look()
        assert viewer.take() == ["events", "tasks"]
        await superuser.execute("ALTER TABLE gnomon.usage RENAME TO elsewhere")
        with pytest.raises(StoreError):
            await live.look()
        assert viewer.take() == []
        clock.at += SLOW_SECONDS
        with pytest.raises(StoreError):
            await live.look()
        assert viewer.take() == ["events", "tasks"]
        await superuser.execute("ALTER TABLE gnomon.elsewhere RENAME TO usage")
        await live.look()
        assert viewer.take() == []


async def test_while_nobody_watches_nothing_is_read(
    database: Database, superuser: Connection
) -> None:
    live = LiveWatch(PostgresSigns(database), HandTurnedClock(), StreamSeats(REQUESTS))
    with ExitStack() as stack:
        opened(live, 3, stack)
        await live.look()
    await superuser.execute("ALTER TABLE gnomon.usage RENAME TO elsewhere")
    await live.look()  # would be refused
    resting = asyncio.create_task(live.rest())
    await asyncio.sleep(0)
    assert not resting.done()
    with ExitStack() as stack:
        opened(live, 1, stack)
        await resting
