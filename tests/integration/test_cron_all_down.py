"""No node for an hour: what becomes of the fires that nobody started, by policy."""

from datetime import datetime, timedelta

import pytest
from tests.integration.nodes import running_node
from tests.integration.turning import Turning, turning, utc

from gnomon.cron.job import Definition, Missed, Overlap
from gnomon.store.postgres.database import Database

JOBS = 100
LIMIT = 10
MISSED_AFTER = 20.0
QUIET = "2026-06-01T12:00:30"
FIRST = utc("2026-06-01T12:01:00")  # seen by everybody
DOWN = utc("2026-06-01T12:02:00")  # the first that nobody starts
LATEST = utc("2026-06-01T13:01:00")  # the last one
BACK = LATEST + timedelta(seconds=40)
MINUTE = timedelta(minutes=1)
HURRY = {"node_plan_seconds": 0.1, "node_slots": 100, "node_prefetch": 0}


def definitions(turned: Turning) -> dict[Missed, list[Definition]]:
    policies = list(Missed)
    made: dict[Missed, list[Definition]] = {policy: [] for policy in policies}
    for n in range(JOBS):
        policy = policies[n % len(policies)]
        made[policy].append(
            turned.job(
                f"{policy.value}-{n}",
                "* * * * *",
                missed_run_policy=policy,
                missed_after_seconds=MISSED_AFTER,
                backfill_limit=LIMIT if policy is Missed.BACKFILL else None,
                overlap_policy=Overlap.SKIP,
            )
        )
    return made


def fires(turned: Turning, job: Definition) -> list[datetime]:
    """Those of the outage and before. Two nodes make up for them at once, in no order."""
    return sorted(ran.fire for ran in turned.ran(job.name) if ran.fire <= LATEST)


async def first_fire(turned: Turning) -> None:
    await turned.to(FIRST - timedelta(seconds=5))
    await turned.planned(FIRST)
    await turned.to(FIRST + timedelta(seconds=1))
    await turned.quiet()


@pytest.mark.parametrize("planned", [False, True], ids=["unplanned", "planned"])
async def test_an_hour_without_nodes(database_dsn: str, database: Database, planned: bool) -> None:
    """`planned`: the nodes go when the first fire of the outage has its tasks already."""
    async with turning(database_dsn, database, utc(QUIET)) as turned:
        jobs = definitions(turned)
        await turned.create([job for same in jobs.values() for job in same])
        async with running_node(database_dsn, **HURRY):
            await first_fire(turned)
            if planned:
                await turned.to(DOWN - timedelta(seconds=9))
                await turned.planned(DOWN)
        assert max(ran.fire for ran in turned.ran()) == FIRST
        await turned.to(BACK)
        async with (
            running_node(database_dsn, node_name="one", **HURRY),
            running_node(database_dsn, node_name="two", **HURRY),
        ):
            await turned.quiet()
    ran = turned.ran()
    assert len({r.run for r in ran}) == len(ran)
    assert all(r.at >= r.fire for r in ran)
    for job in jobs[Missed.SKIP]:
        assert fires(turned, job) == [FIRST]
    for job in jobs[Missed.FIRE_ONCE]:
        assert fires(turned, job) == [FIRST, LATEST]
    made_up = [LATEST - n * MINUTE for n in reversed(range(LIMIT))]
    for job in jobs[Missed.BACKFILL]:
        assert fires(turned, job) == [FIRST, *made_up]
