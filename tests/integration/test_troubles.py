"""What fails in a process is told to those who ask: all to an operator, to a tenant its own."""

from datetime import datetime

import pytest
from tests.integration.cron_support import created, planning
from tests.integration.support import Connection, database_now, store, submission

from gnomon.chores import THE_CHORE, About, Trouble, about_task
from gnomon.cli.admin.checks.troubles import chores as checks_of_chores
from gnomon.cli.admin.checks.troubles import parked_jobs
from gnomon.model.insight.explanation import explain
from gnomon.model.tasks.task import TaskKey
from gnomon.store.ports.planning import UNPLANNABLE
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.troubles import PostgresTroubles
from gnomon.store.postgres.tasks import reading

WHY, SECRET = "its value is too large", "the value of another tenant"


@pytest.fixture
async def now(connection: Connection) -> datetime:
    return await database_now(connection)


def trouble(now: datetime, about: About = THE_CHORE, error: str = WHY) -> Trouble:
    return Trouble("dispatch", about, error, "54000", "change it", now, now, 3, now)


async def facts(database: Database, key: TaskKey) -> str:
    task = await reading.get(database, key)
    told = explain(task, await reading.circumstances(database, key))
    return "\n".join([told.summary, *told.facts])


async def test_a_tenant_is_told_of_its_own(database: Database, now: datetime) -> None:
    mine, other, theirs = await store(
        database,
        submission(now, tenant_id="mine"),
        submission(now, tenant_id="mine"),
        submission(now, tenant_id="theirs"),
    )
    kept = PostgresTroubles(database, "one", "node-1")
    limiter = About("mine", "limiter calls")
    await kept.keep(
        [trouble(now, about_task(mine)), trouble(now, limiter), trouble(now, error=SECRET)], 60.0
    )
    told = await facts(database, mine)
    assert WHY in told
    assert "change it" in told
    assert f"task {mine.id}" not in await facts(database, other)
    assert "limiter calls" in await facts(database, other)
    foreign = await facts(database, theirs)
    assert WHY not in foreign
    for each in (told, foreign):  # what fails for all is told, and not what is said about it
        assert "'dispatch' fails" in each
        assert "54000" in each
        assert SECRET not in each


async def test_doctor_says_whom_it_concerns_and_what_to_do(
    database: Database, connection: Connection, now: datetime
) -> None:
    (check,) = await checks_of_chores(connection)
    assert check.ok
    kept = PostgresTroubles(database, "one", "node-1")
    await kept.keep([trouble(now, About("acme", "task 7"))], 60.0)
    (check,) = await checks_of_chores(connection)
    assert (check.ok, check.name, check.remedy) == (False, "chore dispatch", "change it")
    for part in ("task 7", "tenant acme", WHY, "node-1", "3 times"):
        assert part in check.detail
    job = await created(database, name="nightly")
    await planning(database).park(job, f"{UNPLANNABLE} {WHY}")
    (check,) = await parked_jobs(connection)
    assert "nightly of tenant default" in check.detail
    assert "`gnomon cron resume nightly`" in check.remedy


async def test_what_is_over_goes_and_so_do_processes_that_ended(
    database: Database, connection: Connection, now: datetime
) -> None:
    async def left() -> list[str]:
        rows = await connection.fetch("SELECT process || tenant_id AS it FROM gnomon.trouble")
        return sorted(row["it"] for row in rows)

    one, two = (PostgresTroubles(database, name, name) for name in ("one", "two"))
    await one.keep([trouble(now), trouble(now, About("a")), trouble(now, About("b"))], 60.0)
    await two.keep([trouble(now)], -1.0)  # its time is over already
    assert await left() == ["one", "onea", "oneb", "two"]
    assert all(check.detail.count("on one") for check in await checks_of_chores(connection))
    await one.keep([trouble(now), trouble(now, About("a"), "another")], 60.0)
    assert await left() == ["one", "onea"]
    await one.keep([], 60.0)
    assert await left() == []
