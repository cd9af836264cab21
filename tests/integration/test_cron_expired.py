"""A run that came too late to start must not stand in the way of the one that stands for it."""

from datetime import timedelta

import pytest
from tests.integration.support import joined
from tests.integration.turning import Turning, turning, utc

from gnomon.clock import SystemClock
from gnomon.cron.job import Missed, Overlap
from gnomon.cron.plan import plan
from gnomon.model.task import TaskKey
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatching import PostgresDispatch
from gnomon.store.postgres.recurring import PostgresPlanning

SHARDS = range(256)


async def planned(turned: Turning, planning: PostgresPlanning) -> list[TaskKey]:
    """Plan as a node does."""
    now = await turned.now()
    ahead = now + timedelta(seconds=10)
    jobs = await planning.due(SHARDS, ahead, 10)
    return [entry.key for entry in await planning.advance([plan(job, now, ahead) for job in jobs])]


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.CANCEL_RUNNING])
async def test_the_run_after_an_outage_starts_beside_the_one_that_expired(
    database_dsn: str, database: Database, overlap: Overlap
) -> None:
    async with turning(database_dsn, database, utc("2026-06-01T12:00:55")) as turned:
        job = turned.job(
            "job", "* * * * *", overlap_policy=overlap, missed_run_policy=Missed.FIRE_ONCE
        )
        await turned.create([job])
        before = await turned.value("SELECT id FROM gnomon.task")
        await turned.to(utc("2026-06-01T13:01:30"))
        clock = SystemClock()
        clock.observe(await turned.now(), clock.monotonic())
        planning = PostgresPlanning(database, clock, 10.0)
        (latest,) = await planned(turned, planning)

        node = await joined(database)
        expired = TaskKey(latest.tenant_id, before)
        claim = await PostgresDispatch(database, 10.0).claim(node, [expired, latest])
        assert [(d.key, d.expired) for d in claim.deliveries] == [(expired, True)]
        admission = await planning.admit(node, [latest])
        assert [(d.key, d.expired) for d in admission.claim.deliveries] == [(latest, False)]
