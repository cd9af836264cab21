"""A run that came too late to start must not stand in the way of the one that stands for it."""

from datetime import timedelta

import pytest
from tests.integration.support import joined, settlement
from tests.integration.turning import Turning, turning, utc

from gnomon.clock import SystemClock
from gnomon.cron.job import Missed, Overlap
from gnomon.cron.plan import plan
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import Verdict, VerdictKind
from gnomon.model.tasks.task import DEFAULT_TENANT, TaskKey
from gnomon.store.postgres.cron.planning_store import PostgresPlanning
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch

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
        admission = await planning.claim_runs(node, [latest])
        assert [(d.key, d.expired) for d in admission.claim.deliveries] == [(latest, False)]


async def test_a_run_that_was_given_back_unstarted_can_still_be_missed(
    database_dsn: str, database: Database
) -> None:
    async with turning(database_dsn, database, utc("2026-06-01T11:59:55")) as turned:
        await turned.create([turned.job("job", "* * * * *", missed_run_policy=Missed.SKIP)])
        run = TaskKey(DEFAULT_TENANT, await turned.value("SELECT id FROM gnomon.task"))
        node, dispatch = await joined(database), PostgresDispatch(database, 10.0)
        await turned.to(utc("2026-06-01T12:00:01"))
        (delivery,) = (await dispatch.claim(node, [run])).deliveries
        assert not delivery.expired
        await dispatch.settle([settlement(delivery, Verdict(VerdictKind.RELEASE), None)])
        await turned.to(utc("2026-06-01T12:30:00"))
        (delivery,) = (await dispatch.claim(node, [run])).deliveries
        assert delivery.expired


async def test_the_retry_of_a_run_that_started_in_time_does_not_expire(
    database_dsn: str, database: Database
) -> None:
    async with turning(database_dsn, database, utc("2026-06-01T11:59:55")) as turned:
        await turned.create([turned.job("job", "* * * * *", missed_run_policy=Missed.SKIP)])
        run = TaskKey(DEFAULT_TENANT, await turned.value("SELECT id FROM gnomon.task"))
        node, dispatch = await joined(database), PostgresDispatch(database, 10.0)
        await turned.to(utc("2026-06-01T12:00:01"))
        (delivery,) = (await dispatch.claim(node, [run])).deliveries
        retry = Verdict(VerdictKind.RETRY, delay=600.0, spends=True)
        await dispatch.settle([settlement(delivery, retry, OutcomeKind.FAILED)])
        await turned.to(utc("2026-06-01T12:30:00"))
        (delivery,) = (await dispatch.claim(node, [run])).deliveries
        assert not delivery.expired
