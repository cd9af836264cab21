"""The watchdog, where PostgreSQL refuses to judge some jobs: they are set aside, a few a pass."""

from collections.abc import Sequence
from typing import cast
from uuid import UUID

import pytest

from gnomon.chores import Troubles
from gnomon.clock import SystemClock, new_incarnation
from gnomon.model.errors import StatementRefused
from gnomon.model.tasks.task import TaskKey
from gnomon.node.maintenance.watchdog import CHORE, Watchdog
from gnomon.node.membership.lease import Lease
from gnomon.observe.events import Event
from gnomon.store.ports.insight.events import Judged
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.events.event_reader import PostgresWatch


class Fires:
    """One fire of each job, earliest first; those of the first jobs cannot be judged."""

    def __init__(self, refused: int, good: int) -> None:
        self.refused = [UUID(int=number) for number in range(1, refused + 1)]
        self.good = good

    async def judge(self, ids: Sequence[UUID], aside: Sequence[UUID] = ()) -> Judged:
        if not set(self.refused) <= set(aside):
            raise StatementRefused("no", "22023")
        judged = min(len(ids), self.good)
        self.good -= judged
        return Judged(judged, [])

    async def next_job(self, aside: Sequence[UUID]) -> TaskKey | None:
        return next((TaskKey("acme", job) for job in self.refused if job not in aside), None)


class Alone:
    """Nobody else watches."""

    async def hold(self, chore: str, incarnation: UUID, seconds: float) -> bool:
        return True


class World:
    def __init__(self, refused: int, good: int) -> None:
        told: list[Event] = []
        clock = SystemClock(lambda: 0.0)
        self.fires = Fires(refused, good)
        self.troubles = Troubles(clock, told.append)
        self.watchdog = Watchdog(
            cast("PostgresWatch", self.fires), cast("PostgresChores", Alone()),
            Lease(new_incarnation(), 10.0), clock,
            told.append, self.troubles,
        )  # fmt: skip

    @property
    def aside(self) -> int:
        return len(self.troubles.aside(CHORE))


async def test_jobs_that_cannot_be_judged_are_set_aside_and_the_others_judged() -> None:
    world = World(refused=3, good=500)
    result = await world.watchdog.run_once()
    assert (result.held, result.judged, world.aside) == (True, 500, 3)


async def test_where_many_cannot_be_judged_each_pass_sets_some_aside() -> None:
    """An error that is not the jobs' must not set all of them aside at once."""
    world = World(refused=20, good=1)
    for aside in (8, 16):
        with pytest.raises(StatementRefused):
            await world.watchdog.run_once()
        assert world.aside == aside
    assert (await world.watchdog.run_once()).judged == 1
    assert world.aside == 20
