"""Fires into the ledger and into tasks, and back out of them."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from tests.integration.cron_support import (
    ALL_SHARDS,
    changing,
    created,
    definition,
    job_named,
    ledger,
    make_due,
    planned,
    planning,
    runs_of,
)
from tests.integration.support import database_now, joined, settlement

from gnomon.cron.job import Missed, Overlap, RunKind, Skipped
from gnomon.cron.plan import plan
from gnomon.model.errors import InvalidSchedule
from gnomon.model.fleet.shard import shard_of
from gnomon.model.job_errors import CronJobNotFound, NameTaken, Overlapping
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import Verdict, VerdictKind
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.store.ports.work.cron import CronFilter, Put
from gnomon.store.postgres.cron import jobs as cron_jobs
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.testing import turned_clock

AHEAD = timedelta(seconds=10)
RETRY = Verdict(VerdictKind.RETRY, delay=3600.0, spends=True)


async def _held_at(connection: Any, minute: int, second: int = 0) -> datetime:
    """Stop the database's clock at a time of this hour; gives the moment."""
    now = await database_now(connection)
    moment = now.replace(minute=minute, second=second, microsecond=0)
    await turned_clock.hold(connection, moment)
    return moment


async def test_what_fires_soon_is_planned_with_the_job_itself(
    database: Database, connection: Any
) -> None:
    job = await created(database)
    fires = [row["fire_at"] for row in await ledger(connection, job)]
    runs = await runs_of(connection, job)
    assert [row["fire_at"] for row in runs] == fires
    assert len(fires) in (9, 10, 11)
    assert job.next_fire_at == fires[-1] + timedelta(seconds=1)
    assert job.runs == len(fires)


async def test_runs_lie_in_the_shard_of_their_job(database: Database, connection: Any) -> None:
    job = await created(database)
    assert {row["shard"] for row in await runs_of(connection, job)} == {shard_of(job.id)}


async def test_a_plan_is_carried_out_once_however_often_it_is_brought(
    database: Database, connection: Any
) -> None:
    job = await created(database, cron_expression="* * * * *")
    now = await database_now(connection)
    made = plan(job, now, now + timedelta(minutes=5))
    stores = [planning(database) for _ in range(4)]
    entries = await asyncio.gather(*(store.advance([made]) for store in stores))
    assert sorted(map(len, entries)) == [0, 0, 0, len(made.occurrences)]
    assert len(await runs_of(connection, job)) == (await job_named(database)).runs


async def test_a_plan_of_an_older_version_changes_nothing(
    database: Database, connection: Any
) -> None:
    job = await created(database, cron_expression="0 0 1 1 *")
    now = await database_now(connection)
    made = plan(job, now, now + timedelta(days=400))
    async with changing(database) as change:
        await change.patch("job", lambda d: msgspec.structs.replace(d, task_type="other"))
    assert await planning(database).advance([made]) == []
    assert await ledger(connection, job) == []


async def test_a_fire_that_ended_cannot_be_planned_again(
    database: Database, connection: Any
) -> None:
    job = await created(database)
    rows = await ledger(connection, job)
    await connection.execute("DELETE FROM gnomon.task")
    # As if the job had been moved back by hand.
    await connection.execute("UPDATE gnomon.cron_job SET next_fire_at = $1", rows[0]["fire_at"])
    again = await planned(database, await job_named(database), ahead=5.0)
    known = {row["fire_at"] for row in rows}
    fires = {row["fire_at"] for row in await runs_of(connection, job)}
    assert len(again) == len(fires)
    assert not fires & known


async def test_due_jobs_are_those_of_the_shards_that_fire_in_time(
    database: Database, connection: Any
) -> None:
    job = await created(database, cron_expression="* * * * *", name="soon")
    await created(database, cron_expression="0 0 1 1 *", name="far")
    until = await database_now(connection) + timedelta(minutes=2)
    store = planning(database)
    assert [j.id for j in await store.due(ALL_SHARDS, until, 10)] == [job.id]
    others = [s for s in ALL_SHARDS if s != shard_of(job.id)]
    assert await store.due(others, until, 10) == []


async def test_missed_fires_leave_one_entry_that_counts_them(
    database: Database, connection: Any
) -> None:
    job = await created(database, cron_expression="* * * * *", missed_run_policy=Missed.SKIP)
    now = await database_now(connection)
    await connection.execute(
        "UPDATE gnomon.cron_job SET next_fire_at = date_trunc('minute', $1::timestamptz)",
        now - timedelta(minutes=30),
    )
    await planned(database, await job_named(database), ahead=0.0)
    (entry,) = [row for row in await ledger(connection, job) if row["task_id"] is None]
    assert entry["skipped"] == Skipped.MISSED
    assert entry["missed"] in (29, 30, 31)


async def test_a_missed_fire_can_be_made_up_for(database: Database, connection: Any) -> None:
    job = await created(database, cron_expression="* * * * *", missed_run_policy=Missed.SKIP)
    now = await database_now(connection)
    await connection.execute(
        "UPDATE gnomon.cron_job SET next_fire_at = date_trunc('minute', $1::timestamptz)",
        now - timedelta(minutes=30),
    )
    await planned(database, await job_named(database), ahead=0.0)
    (missed,) = [row for row in await ledger(connection, job) if row["task_id"] is None]
    async with changing(database) as change:
        done = await change.backfill("job", missed["fire_at"], missed["fire_at"], 10, dry_run=False)
    assert done.planned == [missed["fire_at"]]
    (entry,) = [r for r in await ledger(connection, job) if r["fire_at"] == missed["fire_at"]]
    assert (entry["kind"], entry["skipped"], entry["missed"]) == (RunKind.BACKFILL, None, 0)
    assert entry["task_id"] is not None


async def test_a_pause_withdraws_what_has_not_started(database: Database, connection: Any) -> None:
    job = await created(database, overlap_policy=Overlap.ALLOW)
    node = await joined(database)
    first, *_ = await make_due(connection, job, 2)
    await PostgresDispatch(database, 10.0).claim(node, [first])
    async with changing(database) as change:
        paused = await change.pause("job", "the disk is full")
    assert [row["id"] for row in await runs_of(connection, job)] == [first.id]
    assert [row["task_id"] for row in await ledger(connection, job)] == [first.id]
    assert (paused.next_fire_at, paused.runs) == (None, 1)
    assert paused.pause_reason == "the disk is full"


@pytest.mark.parametrize("change", ["pause", "patch", "delete"])
async def test_a_run_that_waits_for_its_retry_has_started_and_is_not_withdrawn(
    database: Database, connection: Any, change: str
) -> None:
    job = await created(database, overlap_policy=Overlap.ALLOW)
    dispatch = PostgresDispatch(database, 10.0)
    (first,) = await make_due(connection, job)
    (delivery,) = (await dispatch.claim(await joined(database), [first])).deliveries
    await dispatch.settle([settlement(delivery, RETRY, OutcomeKind.FAILED, error="HTTP 503")])
    # As of a run that was brought forward: its fire lies in the future.
    async with changing(database) as changed:
        if change == "pause":
            await changed.pause("job", None)
        elif change == "delete":
            await changed.delete("job")
        else:
            new = definition(cron_expression="0 0 1 1 *", overlap_policy=Overlap.ALLOW)
            await changed.patch("job", lambda _: new)
    (left,) = await runs_of(connection, job)
    assert (left["id"], left["attempt"], left["last_error"]) == (first.id, 1, "HTTP 503")
    assert [row["task_id"] for row in await ledger(connection, job)] == [first.id]


async def test_resuming_goes_on_with_the_future(database: Database, connection: Any) -> None:
    await created(database)
    async with changing(database) as change:
        await change.pause("job", None)
    now = await database_now(connection)
    async with changing(database) as change:
        job = await change.resume("job")
    assert job.paused_at is None
    assert min(row["fire_at"] for row in await runs_of(connection, job)) > now


async def test_a_change_withdraws_what_lies_ahead_and_plans_it_anew(
    database: Database, connection: Any
) -> None:
    job = await created(database)
    before = {row["id"] for row in await runs_of(connection, job)}
    async with changing(database) as change:
        await change.patch("job", lambda d: msgspec.structs.replace(d, task_type="other"))
    now = await database_now(connection)  # what has come due before the change is not withdrawn
    runs = await runs_of(connection, job)
    ahead = [row for row in runs if row["fire_at"] > now]
    assert {row["task_type"] for row in ahead} == {"other"}
    assert not {row["id"] for row in ahead} & before
    fires = [row["fire_at"] for row in runs]
    assert fires == sorted(set(fires))


async def test_a_new_expression_never_fires_the_past(database: Database, connection: Any) -> None:
    job = await created(database, cron_expression="0 0 1 1 *")
    now = await database_now(connection)
    async with changing(database) as change:
        await change.patch(
            "job", lambda d: msgspec.structs.replace(d, cron_expression="* * * * * *")
        )
    assert min(row["fire_at"] for row in await runs_of(connection, job)) > now


async def test_a_change_keeps_fires_whose_planning_is_overdue(
    database: Database, connection: Any
) -> None:
    await created(database, cron_expression="* * * * *", missed_run_policy=Missed.BACKFILL)
    now = await database_now(connection)
    due = (now - timedelta(minutes=3)).replace(second=0, microsecond=0)
    await connection.execute("UPDATE gnomon.cron_job SET next_fire_at = $1", due)
    async with changing(database) as change:
        job = await change.patch("job", lambda d: msgspec.structs.replace(d, task_type="other"))
    assert min(row["fire_at"] for row in await runs_of(connection, job)) == due


async def test_the_same_definition_again_changes_nothing(
    database: Database, connection: Any
) -> None:
    job = await created(database, payload_template=msgspec.Raw(b'{"a": [1, 2]}'))
    before = await runs_of(connection, job)
    async with changing(database) as change:
        again, put = await change.put(definition(payload_template=msgspec.Raw(b'{"a":[1,2]}')))
    assert put is Put.UNCHANGED
    assert again.version == job.version
    after = {row["id"] for row in await runs_of(connection, job)}
    assert {row["id"] for row in before} <= after


async def test_deleting_removes_every_run_that_has_not_started(
    database: Database, connection: Any
) -> None:
    job = await created(database, overlap_policy=Overlap.QUEUE)
    async with changing(database) as change:
        await change.trigger("job")
    async with changing(database) as change:
        await change.delete("job")
    assert await runs_of(connection, job) == []
    with pytest.raises(CronJobNotFound):
        await job_named(database)


async def test_a_backfill_runs_each_fire_of_its_range_once(
    database: Database, connection: Any
) -> None:
    now = await _held_at(connection, minute=30)  # a fire that is near is planned with the job
    job = await created(database, cron_expression="0 * * * *")
    first = now - timedelta(days=40)
    async with changing(database) as change:
        dry = await change.backfill("job", first, now, 1000, dry_run=True)
    assert await runs_of(connection, job) == []
    assert len(dry.planned) == 960
    async with changing(database) as change:
        done = await change.backfill("job", first, now, 1000, dry_run=False)
    async with changing(database) as change:
        again = await change.backfill("job", first, now, 1000, dry_run=False)
    assert (done.planned, again.planned, again.existing) == (dry.planned, [], dry.planned)
    runs = await connection.fetch(
        "SELECT fire_at FROM gnomon.task WHERE cron_job_id = $1 ORDER BY due_at, id", job.id
    )
    assert [row["fire_at"] for row in runs] == dry.planned


async def test_a_backfill_leaves_alone_what_was_planned_with_the_job(
    database: Database, connection: Any
) -> None:
    now = await _held_at(connection, minute=59, second=55)
    job = await created(database, cron_expression="0 * * * *")
    (ahead,) = await runs_of(connection, job)
    last = ahead["fire_at"]
    await turned_clock.set_to(connection, now + timedelta(seconds=10))
    async with changing(database) as change:
        done = await change.backfill("job", last - timedelta(hours=2), last, 10, dry_run=False)
    earlier = [last - timedelta(hours=2), last - timedelta(hours=1)]
    assert (done.planned, done.existing) == (earlier, [last])
    runs = await runs_of(connection, job)
    assert [row["fire_at"] for row in runs] == [*earlier, last]
    assert runs[-1]["id"] == ahead["id"]


async def test_a_backfill_is_bounded_and_of_the_past(database: Database, connection: Any) -> None:
    await created(database, cron_expression="0 * * * *")
    now = await database_now(connection)
    async with changing(database) as change:
        with pytest.raises(InvalidSchedule, match="more than 10 fires"):
            await change.backfill("job", now - timedelta(days=1), now, 10, dry_run=True)
        with pytest.raises(InvalidSchedule, match="future"):
            await change.backfill("job", now, now + timedelta(days=1), 10, dry_run=True)


async def test_a_trigger_under_skip_is_refused_while_a_run_is_active(
    database: Database, connection: Any
) -> None:
    job = await created(database)
    node = await joined(database)
    (first,) = await make_due(connection, job)
    await PostgresDispatch(database, 10.0).claim(node, [first])
    async with changing(database) as change:
        with pytest.raises(Overlapping, match=str(first.id)):
            await change.trigger("job")


async def test_of_two_triggers_in_a_row_skip_takes_the_first(database: Database) -> None:
    await created(database, cron_expression="0 0 1 1 *")
    async with changing(database) as change:
        first = await change.trigger("job")
    async with changing(database) as change:
        with pytest.raises(Overlapping, match=str(first.task_id)):
            await change.trigger("job")


async def test_a_payload_that_means_something_else_is_a_change(database: Database) -> None:
    await created(database, payload_template=msgspec.Raw(b'{"a": 1}'))
    async with changing(database) as change:
        _, put = await change.put(definition(payload_template=msgspec.Raw(b'{"a": true}')))
    assert put is Put.CHANGED


async def test_names_are_unique(database: Database) -> None:
    await created(database)
    await created(database, name="other")
    async with changing(database) as change:
        with pytest.raises(NameTaken):
            await change.create(definition())
    with pytest.raises(NameTaken):
        async with changing(database) as change:
            await change.patch("other", lambda d: msgspec.structs.replace(d, name="job"))


async def test_a_page_stops_looking_after_a_while_and_goes_on_from_there(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cron_jobs, "LOOKED_AT", 3)
    for number in range(10):
        await created(database, name=f"job-{number}", cron_expression="0 0 1 1 *")
    jobs = cron_jobs.PostgresCronJobs(database)
    found, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        page = await jobs.list(DEFAULT_TENANT, CronFilter(name="JOB-0"), cursor, 5)
        found += [job.definition.name for job in page.jobs]
        cursor, pages = page.next_cursor, pages + 1
    assert found == ["job-0"]
    assert pages == 4


async def test_parking_pauses_a_job_unless_it_was_changed(database: Database) -> None:
    job = await created(database)
    async with changing(database) as change:
        await change.patch("job", lambda d: msgspec.structs.replace(d, task_type="other"))
    await planning(database).park(job, "it is broken")
    assert (await job_named(database)).paused_at is None
    await planning(database).park(await job_named(database), "it is broken")
    parked = await job_named(database)
    assert (parked.next_fire_at, parked.pause_reason) == (None, "it is broken")
