"""Where the ledger has no partition for a fire of long ago, only the job of that fire waits."""

from datetime import datetime, timedelta

import pytest
from tests.integration.cron_support import (
    ALL_SHARDS,
    changing,
    created,
    job_named,
    ledger,
    planning,
    runs_of,
)
from tests.integration.support import Connection, database_now
from tests.integration.test_partitions import DAY, fresh, pool

from gnomon.chores import Troubles, about_job
from gnomon.clock import SystemClock
from gnomon.fairness import FairQueue
from gnomon.model.errors import StoreUnavailable
from gnomon.model.fleet.pool import Territory
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.planner import PLAN, Planner
from gnomon.node.ahead.scanner import Scanner
from gnomon.observe.events import nobody
from gnomon.settings import NodeSettings
from gnomon.store.ports.dispatch import Entry
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.retention import partitions

__all__ = ["fresh", "pool"]


def planner_of(pool: Database, now: datetime, troubles: Troubles) -> Planner:
    clock, settings = SystemClock(), NodeSettings()
    ready: FairQueue[Entry] = FairQueue()
    scanner = Scanner(PostgresDispatch(pool, 10.0), Agenda(ready, now, 100), clock, settings)
    scanner.own(Territory(frozenset(ALL_SHARDS), jobs=frozenset(ALL_SHARDS)))
    return Planner(planning(pool), scanner, clock, settings, troubles)


async def with_a_fire_of_long_ago(pool: Database, connection: Connection) -> datetime:
    """A job that was to fire when the ledger has no place for that."""
    now = await database_now(connection)
    await partitions.make(connection, now.date())
    fire = (now - 40 * DAY).replace(hour=0, minute=0, second=0, microsecond=0)
    await created(pool, name="late", cron_expression=f"0 0 {fire.day} {fire.month} *")
    await connection.execute("UPDATE gnomon.cron_job SET next_fire_at = $1", fire)
    await connection.execute("DROP TABLE gnomon.occurrence_gap_19700101")
    return fire


async def test_the_other_jobs_are_planned(pool: Database, fresh: Connection) -> None:
    fire = await with_a_fire_of_long_ago(pool, fresh)
    others = [await created(pool, name=f"other-{n}", cron_expression="* * * * *") for n in range(5)]
    now = await database_now(fresh)
    await fresh.execute(
        "UPDATE gnomon.cron_job SET next_fire_at = $1 WHERE name <> 'late'",
        now.replace(second=0, microsecond=0) - timedelta(minutes=1),
    )
    await fresh.execute("TRUNCATE gnomon.occurrence")
    troubles = Troubles(SystemClock(), nobody)
    planner = planner_of(pool, now, troubles)
    await planner.run_once()
    for job in others:
        assert await ledger(fresh, job)
    late = await job_named(pool, "late")
    assert (late.next_fire_at, late.pause_reason) == (fire, None)
    told = [(each.chore, each.about) for each in troubles.all()]
    assert told == [(PLAN, about_job(DEFAULT_TENANT, late.id))]
    await partitions.make(fresh, now.date())  # there is room again
    await planner_of(pool, now, Troubles(SystemClock(), nobody)).run_once()
    assert [row["fire_at"] for row in await ledger(fresh, late)] == [fire]


async def test_whoever_asks_for_the_fire_is_told_to_ask_again(
    pool: Database, fresh: Connection
) -> None:
    fire = await with_a_fire_of_long_ago(pool, fresh)
    with pytest.raises(StoreUnavailable):
        async with changing(pool) as change:
            await change.backfill("late", fire, fire, 10, dry_run=False)
    assert await runs_of(fresh, await job_named(pool, "late")) == []
