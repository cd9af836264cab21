"""Stuck tasks are told once when it begins, and once when it is over, whichever node looks."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.integration.cron_support import Unheard
from tests.integration.support import (
    Connection,
    database_now,
    joined,
    settlement,
    store,
    submission,
)

from gnomon.chores import Troubles, about_task
from gnomon.clock import SystemClock, new_incarnation
from gnomon.model.insight.stuck import Stuck, StuckReason
from gnomon.model.tasks.task import Task, TaskKey
from gnomon.node.maintenance.stuck_watch import (
    MOST_OF_TENANT,
    Examine,
    StuckResult,
    StuckWatch,
)
from gnomon.node.membership.lease import Lease
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.dispatch.node_reader import PostgresNodeReader
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.levels.stuck_store import PostgresStuck
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.testing import turned_clock
from gnomon.usecases.tasks.stuck_tasks import examine, free

AFTER = 300.0
GRACE = 10.0


def watch(database: Database) -> StuckWatch:
    tasks, reader = PostgresTasks(database, Unheard(), 60.0), PostgresNodeReader(database)

    async def begin() -> Examine:
        nodes = free(await reader.nodes(100))

        async def examined(key: TaskKey) -> tuple[Task | None, Stuck | None]:
            return await examine(tasks, None, key, timedelta(seconds=AFTER), nodes)

        return examined

    return watch_by(database, begin, a_book())


def watch_by(
    database: Database, begin: Callable[[], Awaitable[Examine]], troubles: Troubles
) -> StuckWatch:
    lease, chores = Lease(new_incarnation(), 10.0), PostgresChores(database)
    return StuckWatch(PostgresStuck(database), chores, lease, AFTER, begin, troubles)


def finding(
    database: Database, stuck: TaskKey | None, broken: TaskKey | None = None
) -> Callable[[], Awaitable[Examine]]:
    """Finds one task stuck and all others not, or all of them; and cannot examine a broken one."""
    tasks = PostgresTasks(database, Unheard(), 60.0)

    async def begin() -> Examine:
        async def examined(key: TaskKey) -> tuple[Task | None, Stuck | None]:
            if key == broken:
                raise ValueError("it cannot be read")
            task = await tasks.get(key)
            found = Stuck(StuckReason.UNSTARTED, task.execute_at)
            return task, found if stuck in (key, None) else None

        return examined

    return begin


def a_book() -> Troubles:
    return Troubles(SystemClock(), lambda _: None)


async def told(connection: Connection) -> list[tuple[str, dict[str, Any]]]:
    rows = await connection.fetch("SELECT kind, detail FROM gnomon.event ORDER BY id")
    return [(row["kind"], msgspec.json.decode(row["detail"])) for row in rows]


@pytest.fixture
async def clock(connection: Connection) -> Connection:
    await turned_clock.install(connection)
    return connection


async def renewed(connection: Connection) -> None:
    await connection.execute(
        "UPDATE gnomon.node SET alive_until = gnomon.now() + interval '1 minute'"
    )


async def test_a_task_that_does_not_start_is_told_until_it_does(
    database: Database, clock: Connection
) -> None:
    node = await joined(database)
    now = await database_now(clock)
    (key,) = await store(database, submission(now))
    one = watch(database)
    assert await one.run_once() == StuckResult()
    await turned_clock.turn(clock, AFTER + 1)
    await renewed(clock)
    assert await one.run_once() == StuckResult(begun=1)
    assert await one.run_once() == StuckResult()
    around = await PostgresTasks(database, Unheard(), 60.0).circumstances(key)
    assert (around.stuck_reason, around.stuck_since) == ("unstarted", around.due_at)
    dispatch = PostgresDispatch(database, GRACE)
    (delivery,) = (await dispatch.claim(node, [key])).deliveries
    await turned_clock.turn(clock, 60)  # the holder dies: another goes on where it was
    other = watch(database)
    assert await other.run_once() == StuckResult(ended=1)
    await dispatch.settle([settlement(delivery)])
    assert await other.run_once() == StuckResult()
    (began, first), (ended, second) = await told(clock)
    assert (began, ended) == ("task.stuck", "task.stuck.resolved")
    assert first["task_id"] == second["task_id"] == str(key.id)
    assert (first["reason"], second["status"]) == ("unstarted", "RUNNING")


async def test_a_run_that_nobody_takes_over_is_told_and_a_deleted_one_is_over(
    database: Database, clock: Connection
) -> None:
    node = await joined(database)
    (key,) = await store(database, submission(await database_now(clock), timeout_seconds=5.0))
    await PostgresDispatch(database, GRACE).claim(node, [key])
    await turned_clock.turn(clock, 5 + GRACE + 61)
    one = watch(database)
    assert await one.run_once() == StuckResult(begun=1)
    await clock.execute("DELETE FROM gnomon.task")
    assert await one.run_once() == StuckResult(ended=1)
    assert [detail["reason"] for _, detail in await told(clock)] == ["overrun", "overrun"]


async def test_what_waits_for_a_slot_or_a_node_is_not_stuck(
    database: Database, clock: Connection
) -> None:
    await store(database, submission(await database_now(clock)))
    await turned_clock.turn(clock, AFTER + 1)
    assert await watch(database).run_once() == StuckResult()


async def test_one_that_is_stuck_is_found_behind_others_that_are_only_late(
    database: Database, clock: Connection
) -> None:
    now = await database_now(clock)
    await store(database, *(submission(now, task_type=f"t{each}") for each in range(60)))
    (last,) = await store(database, submission(now, tenant_id="zz"))
    await turned_clock.turn(clock, AFTER + 1)
    one = watch_by(database, finding(database, last), a_book())
    results = [await one.run_once() for _ in range(4)]
    assert [each.begun for each in results].count(1) == 1, results


async def overrun(database: Database, clock: Connection, **tenants: int) -> None:
    """So many runs of each tenant that nobody takes over, the first tenant's first."""
    node, now = await joined(database), await database_now(clock)
    for tenant_id, count in tenants.items():
        made = [submission(now, tenant_id=tenant_id, timeout_seconds=5.0) for _ in range(count)]
        keys = await store(database, *made)
        await PostgresDispatch(database, GRACE).claim(node, keys)
    await turned_clock.turn(clock, 5 + GRACE + 61)


async def test_all_runs_that_nobody_takes_over_are_told(
    database: Database, clock: Connection
) -> None:
    await overrun(database, clock, a=20, b=20, c=10)
    one = watch(database)
    assert sum([(await one.run_once()).begun for _ in range(4)]) == 50


async def test_one_tenant_with_many_stuck_tasks_hides_no_other(
    database: Database, clock: Connection
) -> None:
    await overrun(database, clock, a=300, z=1)
    now = await database_now(clock)
    for tenant_id, count in (("a", 60), ("zz", 1)):
        types = [submission(now, tenant_id=tenant_id, task_type=f"t{n}") for n in range(count)]
        await store(database, *types)
    await turned_clock.turn(clock, AFTER + 1)
    one = watch_by(database, finding(database, None), a_book())
    for _ in range(4):
        await one.run_once()
    told_of = await clock.fetch(
        "SELECT tenant_id, count(*) FROM gnomon.stuck_task GROUP BY tenant_id ORDER BY tenant_id"
    )
    assert [tuple(row) for row in told_of] == [("a", MOST_OF_TENANT), ("z", 1), ("zz", 1)]


async def test_a_task_that_cannot_be_examined_keeps_no_other_from_being_told(
    database: Database, clock: Connection
) -> None:
    now = await database_now(clock)
    (broken,) = await store(database, submission(now, tenant_id="aa"))
    (sound,) = await store(database, submission(now, tenant_id="bb"))
    await turned_clock.turn(clock, AFTER + 1)
    troubles = a_book()
    one = watch_by(database, finding(database, sound, broken), troubles)
    assert await one.run_once() == StuckResult(begun=1)
    ((_, detail),) = await told(clock)
    assert detail["task_id"] == str(sound.id)
    assert [each.about for each in troubles.all()] == [about_task(broken)]
