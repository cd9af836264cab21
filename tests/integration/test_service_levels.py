"""Tasks with service levels: judged once, told and counted, whoever looks and dies meanwhile."""

import asyncio
import contextlib
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
import pytest
from tests.integration.cron_support import Unheard, created, planned
from tests.integration.support import (
    Connection,
    database_now,
    joined,
    settlement,
    store,
    submission,
)

from gnomon.chores import Troubles
from gnomon.clock import SystemClock, new_incarnation
from gnomon.model.errors import StoreUnavailable
from gnomon.model.fleet.retention import RowKind
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import Verdict, VerdictKind
from gnomon.model.tasks.task import DEFAULT_TENANT, TaskKey, TaskPatch
from gnomon.node.maintenance.level_judge import MOST_TOLD, LevelJudge
from gnomon.node.maintenance.watchdog import Watchdog
from gnomon.node.membership.lease import Lease
from gnomon.pipe.envelope import Delivery
from gnomon.store.ports.insight.levels import LevelCounts
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.events.event_reader import PostgresWatch
from gnomon.store.postgres.levels.level_store import PostgresLevels
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.testing import turned_clock

SLA, WARN = 60.0, 20.0
GRACE = 10.0
RETRY = Verdict(VerdictKind.RETRY)
DEAD = Verdict(VerdictKind.DEAD_LETTER)
NOTHING = LevelCounts()


class Stage:
    """A node that claims, a judge, and a clock to turn."""

    def __init__(self, database: Database, connection: Connection) -> None:
        self.database = database
        self.connection = connection
        self.dispatch = PostgresDispatch(database, GRACE)
        self.tasks = PostgresTasks(database, Unheard(), 60.0)
        self.judge = self.new_judge()

    def new_judge(self) -> LevelJudge:
        levels, chores = PostgresLevels(self.database, GRACE), PostgresChores(self.database)
        return LevelJudge(levels, chores, Lease(new_incarnation(), 10.0), SystemClock())

    async def turn(self, seconds: float) -> None:
        await turned_clock.turn(self.connection, seconds)

    async def task(self, due_in: float = 0.0, **values: Any) -> TaskKey:
        now = await database_now(self.connection)
        (key,) = await store(self.database, submission(now, due_in, **values))
        return key

    async def start(self, key: TaskKey) -> Delivery:
        node = await joined(self.database)
        (delivery,) = (await self.dispatch.claim(node, [key])).deliveries
        return delivery

    async def end(self, delivery: Delivery, verdict: Verdict | None = None) -> None:
        now = (await database_now(self.connection)).timestamp()
        if verdict is None:
            done = settlement(delivery)
        else:
            done = settlement(delivery, verdict, OutcomeKind.FAILED)
        times = {"finished_at": now, "started_at": None}
        await self.dispatch.settle([msgspec.structs.replace(done, **times)])

    async def told(self) -> list[tuple[str, dict[str, Any]]]:
        rows = await self.connection.fetch("SELECT kind, detail FROM gnomon.event ORDER BY id")
        return [(row["kind"], msgspec.json.decode(row["detail"])) for row in rows]

    async def watched(self) -> int:
        count: int = await self.connection.fetchval("SELECT count(*) FROM gnomon.watched_task")
        return count


@pytest.fixture
async def stage(database: Database, connection: Connection) -> Stage:
    await turned_clock.install(connection)
    return Stage(database, connection)


async def test_a_task_without_a_level_is_not_watched(stage: Stage) -> None:
    await stage.task()
    assert await stage.watched() == 0


async def test_a_task_that_nobody_starts_is_told_once(stage: Stage) -> None:
    key = await stage.task(sla_seconds=SLA)
    await stage.turn(SLA)
    assert await stage.judge.run_once() == NOTHING
    await stage.turn(2)
    assert await stage.judge.run_once() == LevelCounts(start_missed=1)
    assert await stage.judge.run_once() == NOTHING
    ((kind, detail),) = await stage.told()
    assert (kind, detail["task_type"], detail["started_at"]) == ("task.sla_missed", "test", None)
    assert detail["sla_seconds"] == SLA
    row = await stage.connection.fetchrow("SELECT tenant_id, task_id FROM gnomon.event")
    assert row is not None
    assert tuple(row) == (key.tenant_id, key.id)
    assert await stage.watched() == 0


@pytest.mark.parametrize(("after", "counts"), [(1, (1, 0)), (SLA + 1, (0, 1))])
async def test_a_task_that_started_and_ended_between_two_looks_is_judged(
    stage: Stage, after: float, counts: tuple[int, int]
) -> None:
    key = await stage.task(sla_seconds=SLA)
    await stage.turn(after)
    delivery = await stage.start(key)
    await stage.end(delivery)
    await stage.turn(3600)  # nobody has looked for so long
    assert await stage.judge.run_once() == LevelCounts(*counts)
    assert len(await stage.told()) == counts[1]
    assert await stage.watched() == 0


async def test_the_first_execution_counts(stage: Stage) -> None:
    key = await stage.task(sla_seconds=SLA)
    await stage.end(await stage.start(key), RETRY)
    await stage.turn(SLA + 5)
    await stage.end(await stage.start(key), DEAD)
    assert await stage.judge.run_once() == LevelCounts(start_kept=1)


async def test_the_deadline_moves_with_the_time_of_the_task(stage: Stage) -> None:
    key = await stage.task(due_in=10, sla_seconds=SLA)
    later = (await database_now(stage.connection)).replace(microsecond=0)
    async with stage.tasks.change(DEFAULT_TENANT) as change:
        await change.patch(key.id, TaskPatch(execute_at=later + timedelta(hours=2)))
    await stage.turn(7200)
    assert await stage.judge.run_once() == NOTHING
    await stage.end(await stage.start(key))
    await stage.turn(SLA + 5)
    assert await stage.judge.run_once() == LevelCounts(start_kept=1)


async def test_a_pause_is_not_lateness(stage: Stage) -> None:
    key = await stage.task(sla_seconds=SLA)
    async with stage.tasks.change(DEFAULT_TENANT) as change:
        await change.pause(key.id)
    await stage.turn(SLA + 5)
    assert await stage.judge.run_once() == NOTHING
    async with stage.tasks.change(DEFAULT_TENANT) as change:
        await change.resume(key.id)
    await stage.turn(5)
    await stage.end(await stage.start(key))
    await stage.turn(SLA)
    assert await stage.judge.run_once() == LevelCounts(start_kept=1)


async def test_what_is_deleted_or_withdrawn_in_time_counts_neither_way(stage: Stage) -> None:
    keys = [await stage.task(sla_seconds=SLA) for _ in range(2)]
    async with stage.tasks.change(DEFAULT_TENANT) as change:
        await change.delete(keys[0].id)
        await change.cancel(keys[1].id, interrupt=False)
    await stage.turn(SLA + 2)
    assert await stage.judge.run_once() == NOTHING
    assert await stage.watched() == 0


async def test_levels_can_be_given_and_taken(stage: Stage) -> None:
    given, taken = await stage.task(due_in=5), await stage.task(due_in=5, sla_seconds=SLA)
    async with stage.tasks.change(DEFAULT_TENANT) as change:
        await change.patch(given.id, TaskPatch(sla_seconds=SLA))
        await change.patch(taken.id, TaskPatch(sla_seconds=None))
    await stage.turn(SLA + 7)
    assert await stage.judge.run_once() == LevelCounts(start_missed=1)
    assert await stage.watched() == 0


async def test_a_slow_execution_is_told_while_it_runs_and_once(stage: Stage) -> None:
    key = await stage.task(warn_after_seconds=WARN)
    delivery = await stage.start(key)
    await stage.turn(WARN - 1)
    assert await stage.judge.run_once() == NOTHING
    await stage.turn(3)
    assert await stage.judge.run_once() == LevelCounts(run_missed=1)
    await stage.turn(WARN + 2)
    assert await stage.judge.run_once() == NOTHING
    await stage.end(delivery)
    await stage.turn(WARN + 2)
    assert await stage.judge.run_once() == NOTHING
    ((kind, detail),) = await stage.told()
    assert (kind, detail["attempt"], detail["finished_at"]) == ("task.slow", 1, None)
    assert await stage.watched() == 0


async def test_each_slow_execution_is_told_and_its_task_counts_once(stage: Stage) -> None:
    key = await stage.task(warn_after_seconds=WARN)
    for verdict in (RETRY, None):
        delivery = await stage.start(key)
        await stage.turn(WARN + 5)
        await stage.end(delivery, verdict)
        await stage.judge.run_once()
    assert [detail["attempt"] for _, detail in await stage.told()] == [1, 2]
    assert await stage.judge.run_once() == NOTHING
    sums = await stage.connection.fetchrow("SELECT run_kept, run_missed FROM gnomon.service_level")
    assert sums is not None
    assert tuple(sums) == (0, 1)


async def test_a_redriven_dead_letter_is_watched_again(stage: Stage) -> None:
    key = await stage.task(warn_after_seconds=WARN)
    await stage.end(await stage.start(key), DEAD)
    await stage.turn(WARN + 2)
    assert await stage.judge.run_once() == LevelCounts(run_kept=1)
    async with stage.tasks.change(DEFAULT_TENANT) as change:
        await change.redrive(key.id)
    delivery = await stage.start(key)
    await stage.turn(WARN + 2)
    assert await stage.judge.run_once() == LevelCounts(run_missed=1)
    await stage.end(delivery)


async def test_a_judge_that_dies_loses_and_doubles_nothing(stage: Stage) -> None:
    for _ in range(20):
        await stage.task(sla_seconds=SLA)
    await stage.turn(SLA + 2)
    store = PostgresLevels(stage.database, GRACE)
    await store.judge(5, lambda _: True)

    class Died(Exception):
        pass

    def die(_: object) -> bool:
        raise Died

    with pytest.raises(Died):
        await store.judge(5, die)
    found = await asyncio.gather(*(store.judge(20, lambda _: True) for _ in range(3)))
    assert sum(each.counts.start_missed for each in found) == 15
    assert await stage.connection.fetchval("SELECT start_missed FROM gnomon.service_level") == 20
    assert len(await stage.told()) == 20


async def test_a_server_that_goes_away_in_between_loses_nothing(stage: Stage) -> None:
    key = await stage.task(sla_seconds=SLA)
    delivery = await stage.start(key)
    await stage.end(delivery)
    late = await stage.task(sla_seconds=SLA)
    await stage.turn(SLA + 2)
    await stage.connection.execute(
        """
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
          AND backend_type = 'client backend'
        """
    )
    found = LevelCounts()
    for _ in range(20):  # connections of the pool that are dead are found out one by one
        try:
            found = await stage.judge.run_once()
            break
        except StoreUnavailable:
            continue
    assert found == LevelCounts(start_kept=1, start_missed=1)
    assert await stage.connection.fetchval("SELECT task_id FROM gnomon.event") == late.id


async def test_one_node_judges_at_a_time(stage: Stage) -> None:
    await stage.task(sla_seconds=SLA)
    assert await stage.judge.run_once() == NOTHING
    await stage.turn(1)
    other = stage.new_judge()
    await stage.connection.execute("UPDATE gnomon.watched_task SET look_at = '-infinity'")
    assert await other.run_once() == NOTHING
    row = await stage.connection.fetchval("SELECT look_at::text FROM gnomon.watched_task")
    assert row == "-infinity"


async def test_many_late_tasks_of_a_type_are_counted_and_a_few_told(stage: Stage) -> None:
    for _ in range(MOST_TOLD + 5):
        await stage.task(sla_seconds=SLA)
    await stage.turn(SLA + 2)
    assert await stage.judge.run_once() == LevelCounts(start_missed=MOST_TOLD + 5)
    assert len(await stage.told()) == MOST_TOLD


async def test_types_beyond_the_number_that_is_kept_are_added_up_together(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gnomon.store.postgres.levels.level_store.MOST_ROWS_A_WEEK", 3)
    for number in range(6):
        await stage.task(sla_seconds=SLA, task_type=f"type-{number}")
    await stage.turn(SLA + 2)
    await stage.judge.run_once()
    rows = await stage.connection.fetch("SELECT task_type, start_missed FROM gnomon.service_level")
    assert sorted(map(tuple, rows)) == [("", 3), ("type-0", 1), ("type-1", 1), ("type-2", 1)]


async def test_runs_of_a_cron_job_are_counted_by_its_ledger(stage: Stage) -> None:
    job = await created(
        stage.database, interval_seconds=3600, sla_seconds=SLA, warn_after_seconds=WARN
    )
    assert job.next_fire_at is not None
    now = await database_now(stage.connection)
    await stage.turn((job.next_fire_at - now).total_seconds() - 5)
    (entry,) = await planned(stage.database, job)
    await stage.turn(6)
    delivery = await stage.start(entry.key)
    await stage.turn(WARN + 2)
    assert await stage.judge.run_once() == LevelCounts(run_missed=1)
    await stage.end(delivery)
    await stage.turn(SLA)
    lease, clock = Lease(new_incarnation(), 10.0), SystemClock()
    chores = PostgresChores(stage.database)
    troubles = Troubles(clock, lambda _: None)
    watch = PostgresWatch(stage.database, GRACE)
    await Watchdog(watch, chores, lease, clock, lambda _: None, troubles).run_once()
    assert await stage.judge.run_once() == NOTHING
    (week,) = await stage.connection.fetch("SELECT * FROM gnomon.service_level")
    assert (week["cron_job_id"], week["start_kept"], week["run_missed"]) == (job.id, 1, 1)
    assert week["task_type"] == job.definition.task_type


async def test_old_weeks_are_removed(stage: Stage) -> None:
    await stage.connection.execute(
        """
        INSERT INTO gnomon.service_level (tenant_id, week, task_type, cron_job_id)
        SELECT 'default', date_trunc('week', gnomon.now())::date - 7 * n, 't', $1
        FROM unnest(ARRAY[0, 105, 107, 120]) AS n
        """,
        UUID(int=0),
    )
    chores = PostgresChores(stage.database)
    assert (await chores.remove(RowKind.LEVELS, 1000, 30.0)).removed == 2
    assert await stage.connection.fetchval("SELECT count(*) FROM gnomon.service_level") == 2


async def test_a_tenant_sees_its_own_levels_alone(stage: Stage) -> None:
    await stage.task(sla_seconds=SLA)
    await stage.task(sla_seconds=SLA, tenant_id="other")
    for table in ("watched_task", "service_level", "stuck_task"):
        async with stage.database.scoped("other") as connection:
            tenants = await connection.fetch(f"SELECT tenant_id FROM gnomon.{table}")
        assert {row["tenant_id"] for row in tenants} <= {"other"}


async def test_a_missed_start_is_judged_once_however_often_the_task_is_changed(
    stage: Stage,
) -> None:
    key = await stage.task(sla_seconds=SLA)
    await stage.turn(SLA + 2)
    assert await stage.judge.run_once() == LevelCounts(start_missed=1)
    async with stage.tasks.change(DEFAULT_TENANT) as change:
        await change.patch(key.id, TaskPatch(name="renamed"))
    await stage.turn(SLA + 2)
    assert await stage.judge.run_once() == NOTHING
    assert len(await stage.told()) == 1


async def test_an_execution_before_a_redrive_is_not_told_again(stage: Stage) -> None:
    key = await stage.task(warn_after_seconds=WARN)
    delivery = await stage.start(key)
    await stage.turn(WARN + 2)
    await stage.end(delivery, DEAD)
    assert await stage.judge.run_once() == LevelCounts(run_missed=1)
    async with stage.tasks.change(DEFAULT_TENANT) as change:
        await change.redrive(key.id)
    await stage.end(await stage.start(key))
    await stage.turn(WARN + 2)
    assert await stage.judge.run_once() == LevelCounts(run_kept=1)
    assert len(await stage.told()) == 1


@pytest.mark.parametrize(
    "levels",
    [
        "sla_seconds = 1, warn_after_seconds = 1e12",
        "sla_seconds = 5e12, warn_after_seconds = 1",
        "sla_seconds = 1, warn_after_seconds = 'NaN'",
        "sla_seconds = 1, warn_after_seconds = 'infinity'",
        "sla_seconds = 'NaN', warn_after_seconds = -1e300",
        "due_at = '-infinity'",
        "due_at = 'infinity'",
    ],
)
async def test_levels_of_plain_sql_keep_no_other_task_from_being_judged(
    stage: Stage, levels: str
) -> None:
    key = await stage.task(sla_seconds=1.0, warn_after_seconds=1.0)
    await stage.task(task_type="sound", sla_seconds=SLA)
    await stage.connection.execute(f"UPDATE gnomon.task SET {levels} WHERE id = $1", key.id)
    with contextlib.suppress(asyncpg.DataError):  # those that no deadline can be made of
        await stage.connection.execute("SELECT gnomon.watch_tasks($1, $2)", key.tenant_id, [key.id])
    await stage.turn(SLA + 2)
    await stage.judge.run_once()
    assert "sound" in [detail["task_type"] for _, detail in await stage.told()]
