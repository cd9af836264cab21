"""Who of a job may run, as the store decides it."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.conftest import connected
from tests.integration.cron_support import (
    Unheard,
    changing,
    created,
    job_named,
    ledger,
    make_due,
    planned,
    planning,
    runs_of,
)
from tests.integration.nodes import running_node
from tests.integration.support import (
    archived,
    blocked_by,
    database_now,
    end_of,
    joined,
    live,
    settlement,
    store,
    submission,
)
from tests.waiting import eventually

from gnomon.clock import SystemClock
from gnomon.cron.job import CronJob, Overlap, Skipped
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import Verdict, VerdictKind
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import TaskKey
from gnomon.pipe.envelope import Delivery
from gnomon.store.ports.dispatch import DispatchStore
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.hints import Listener
from gnomon.store.postgres.tasks.task_store import PostgresTasks

RETRY = Verdict(VerdictKind.RETRY, delay=3600.0, spends=True)


class Stage:
    """A job whose first run is under way on a node, and whose next runs are due."""

    def __init__(self, database: Database, connection: Any) -> None:
        self.database = database
        self.connection = connection
        self.planning = planning(database)
        self.dispatch: DispatchStore = PostgresDispatch(database, 10.0)

    async def set(self, policy: Overlap, due: int = 1, **values: Any) -> None:
        self.node = await joined(self.database)
        self.job = await created(self.database, overlap_policy=policy, **values)
        self.first = await self.start(*(await make_due(self.connection, self.job)))
        self.next = await make_due(self.connection, self.job, due)

    async def start(self, key: TaskKey) -> Delivery:
        (delivery,) = (await self.dispatch.claim(self.node, [key])).deliveries
        return delivery

    async def ask(self, *keys: TaskKey) -> list[TaskKey]:
        """Claim as a dispatcher does: what is not simply claimed is asked for."""
        claimed = [d.key for d in (await self.dispatch.claim(self.node, keys)).deliveries]
        left = [key for key in keys if key not in claimed]
        answer = await self.planning.claim_runs(self.node, left)
        return claimed + [d.key for d in answer.claim.deliveries]

    async def end(self, delivery: Delivery, verdict: Verdict | None = None) -> None:
        if verdict is None:
            await self.dispatch.settle([settlement(delivery)])
        else:
            await self.dispatch.settle([settlement(delivery, verdict, OutcomeKind.FAILED)])

    async def start_queued(self) -> list[TaskKey]:
        job = TaskKey(self.job.tenant_id, self.job.id)
        return [e.key for e in await self.planning.start_queued([job])]

    async def state(self, key: TaskKey) -> State | None:
        row = await live(self.connection, key)
        return None if row is None else State(row["state"])


async def staged(
    database: Database, connection: Any, policy: Overlap, due: int = 1, **values: Any
) -> Stage:
    stage = Stage(database, connection)
    await stage.set(policy, due, **values)
    return stage


async def skips_of(connection: Any, job: CronJob) -> list[Skipped]:
    rows = await ledger(connection, job)
    return [Skipped(row["skipped"]) for row in rows if row["skipped"] is not None]


async def test_the_first_run_is_reserved_while_it_is_planned(
    database: Database, connection: Any
) -> None:
    job = await created(database)
    rows = await runs_of(connection, job)
    assert [row["gated"] for row in rows] == [False] + [True] * (len(rows) - 1)


async def test_a_run_that_has_expired_is_claimed_to_be_put_to_rest_whatever_else_runs(
    database: Database, connection: Any
) -> None:
    stage = await staged(database, connection, Overlap.QUEUE)
    (expired,) = stage.next
    await connection.execute(
        "UPDATE gnomon.task SET expires_at = gnomon.now() - interval '1 ms' WHERE id = $1",
        expired.id,
    )
    answer = await stage.planning.claim_runs(stage.node, [expired])
    assert [(d.key, d.expired) for d in answer.claim.deliveries] == [(expired, True)]
    assert await active_of(connection, stage.job) == stage.first.key.id


async def test_the_run_that_starts_next_is_the_active_one_of_its_own_job_and_of_no_other(
    database: Database, connection: Any
) -> None:
    stage = await staged(database, connection, Overlap.SKIP)
    other = await created(database, name="other", overlap_policy=Overlap.SKIP)
    before = await active_of(connection, other)
    await stage.end(stage.first)
    (second,) = stage.next
    assert await stage.ask(second) == [second]
    assert await active_of(connection, stage.job) == second.id
    assert await active_of(connection, other) == before
    (third,) = await make_due(connection, stage.job)
    assert await stage.ask(third) == []
    assert await skips_of(connection, stage.job) == [Skipped.OVERLAP]


async def active_of(connection: Any, job: CronJob) -> UUID | None:
    found: UUID | None = await connection.fetchval(
        "SELECT active_task_id FROM gnomon.cron_job WHERE id = $1", job.id
    )
    return found


async def test_skip_puts_a_run_to_rest_while_another_is_active(
    database: Database, connection: Any
) -> None:
    stage = await staged(database, connection, Overlap.SKIP)
    assert await stage.ask(*stage.next) == []
    row = await archived(connection, stage.next[0])
    assert row is not None
    assert row["state"] == State.CANCELLED
    assert str(stage.first.key.id) in row["last_error"]
    assert await skips_of(connection, stage.job) == [Skipped.OVERLAP]


@pytest.mark.parametrize("policy", [Overlap.SKIP, Overlap.QUEUE])
async def test_a_run_that_is_changed_meanwhile_is_not_settled(
    database: Database, connection: Any, policy: Overlap
) -> None:
    """It is as it was, and must be asked for again."""
    stage = await staged(database, connection, policy)
    (key,) = stage.next
    async with connection.transaction():
        await connection.execute("UPDATE gnomon.task SET name = 'other' WHERE id = $1", key.id)
        asked = asyncio.create_task(stage.planning.claim_runs(stage.node, [key]))

        async def waits() -> bool:
            return bool(await blocked_by(connection))

        await eventually(waits)
    answer = await asked
    assert await stage.state(key) is State.WAITING
    assert (answer.claim.deliveries, answer.settled, answer.skipped) == ([], [], [])
    again = await stage.planning.claim_runs(stage.node, [key])
    assert again.settled == [key]
    assert await stage.state(key) is (None if policy is Overlap.SKIP else State.BLOCKED)


async def test_a_wait_for_a_retry_is_active(database: Database, connection: Any) -> None:
    stage = await staged(database, connection, Overlap.SKIP)
    await stage.end(stage.first, RETRY)
    assert await stage.ask(*stage.next) == []
    assert await skips_of(connection, stage.job) == [Skipped.OVERLAP]


async def test_a_dead_letter_is_not_active(database: Database, connection: Any) -> None:
    stage = await staged(database, connection, Overlap.SKIP)
    await stage.end(stage.first, Verdict(VerdictKind.DEAD_LETTER))
    assert await stage.ask(*stage.next) == stage.next


async def test_skip_lets_the_next_run_start_when_the_one_before_has_ended(
    database: Database, connection: Any
) -> None:
    stage = await staged(database, connection, Overlap.SKIP)
    await stage.end(stage.first)
    assert await stage.ask(*stage.next) == stage.next


async def test_of_two_runs_that_are_due_together_skip_starts_one(
    database: Database, connection: Any
) -> None:
    stage = await staged(database, connection, Overlap.SKIP, due=2)
    await stage.end(stage.first)
    assert await stage.ask(*stage.next) == stage.next[:1]
    assert await skips_of(connection, stage.job) == [Skipped.OVERLAP]


async def test_allow_asks_nobody(database: Database, connection: Any) -> None:
    stage = await staged(database, connection, Overlap.ALLOW, due=3)
    claimed = await stage.dispatch.claim(stage.node, stage.next)
    assert sorted(d.key for d in claimed.deliveries) == sorted(stage.next)


async def test_queued_runs_go_one_after_the_other_in_order(
    database: Database, connection: Any
) -> None:
    stage = await staged(database, connection, Overlap.QUEUE, due=3)
    assert await stage.ask(*stage.next) == []
    assert {await stage.state(key) for key in stage.next} == {State.BLOCKED}
    assert await stage.start_queued() == []
    running, turns = stage.first, []
    for _ in stage.next:
        await stage.end(running)
        (turn,) = await stage.start_queued()
        turns.append(turn)
        running = await stage.start(turn)
    assert turns == stage.next


async def test_a_run_does_not_overtake_those_queued_before_it(
    database: Database, connection: Any
) -> None:
    stage = await staged(database, connection, Overlap.QUEUE)
    await stage.ask(*stage.next)
    await stage.end(stage.first)
    late = await make_due(connection, stage.job)
    assert await stage.ask(*late) == []
    assert await stage.start_queued() == stage.next


async def test_a_run_that_is_planned_while_another_is_queued_does_not_start_beside_it(
    database: Database, connection: Any, database_dsn: str
) -> None:
    """The plan sees that the active run has ended, and not yet that another is queued."""
    stage = await staged(database, connection, Overlap.QUEUE)
    (queued,) = stage.next
    job = await job_named(database)
    holder = await connected(database_dsn)
    try:
        held = holder.transaction()
        await held.start()
        await holder.execute("SELECT FROM gnomon.task WHERE id = $1 FOR UPDATE", queued.id)
        async with asyncio.TaskGroup() as group:
            group.create_task(stage.planning.claim_runs(stage.node, [queued]))
            await eventually(lambda: are_blocked(connection, 1))
            await stage.end(stage.first)
            planning = group.create_task(planned(database, job, ahead=20.0))
            await eventually(lambda: are_blocked(connection, 2))
            await held.rollback()
    finally:
        await holder.close()
    assert await stage.state(queued) is State.BLOCKED
    assert await stage.start_queued() == [queued]
    await stage.start(queued)
    later = [entry.key for entry in planning.result()]
    assert later
    await connection.execute("UPDATE gnomon.task SET due_at = gnomon.now() WHERE state = 0")
    assert await stage.ask(*later) == []


async def are_blocked(connection: Any, number: int) -> bool:
    """Whether so many sessions wait for locks."""
    found = await connection.fetchval(
        """
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'
        """
    )
    return bool(found == number)


async def test_cancel_running_asks_the_active_one_to_end_and_takes_its_place(
    database: Database, connection: Any
) -> None:
    stage = await staged(database, connection, Overlap.CANCEL_RUNNING)
    assert await stage.ask(*stage.next) == []
    row = await live(connection, stage.first.key)
    assert row is not None
    assert row["cancel_requested"]
    await stage.end(stage.first, RETRY)
    ended = await archived(connection, stage.first.key)
    assert ended is not None
    assert ended["state"] == State.CANCELLED
    assert await stage.start_queued() == stage.next


async def test_the_node_that_runs_the_active_one_is_told_to_end_it(
    direct_dsn: str, database: Database, connection: Any
) -> None:
    listening = asyncio.Event()
    told: list[TaskKey] = []
    listener = Listener(
        direct_dsn, SystemClock(), lambda _: listening.set(), told.append, look_seconds=1.0
    )
    hearing = asyncio.create_task(listener.run())
    await asyncio.wait_for(listening.wait(), 30)
    stage = await staged(database, connection, Overlap.CANCEL_RUNNING, due=2)
    await stage.ask(stage.next[0])

    async def heard() -> list[TaskKey]:
        return told

    assert await eventually(heard) == [stage.first.key]
    hearing.cancel()
    await asyncio.wait([hearing])


async def test_cancel_running_starts_at_once_where_the_other_waits_for_a_retry(
    database: Database, connection: Any
) -> None:
    stage = await staged(database, connection, Overlap.CANCEL_RUNNING)
    await stage.end(stage.first, RETRY)
    answer = await stage.planning.claim_runs(stage.node, stage.next)
    assert [e.key for e in answer.started_queued] == stage.next
    ended = await archived(connection, stage.first.key)
    assert ended is not None
    assert ended["state"] == State.CANCELLED


async def test_the_newest_run_takes_the_place_of_those_that_waited_to_replace(
    database: Database, connection: Any
) -> None:
    stage = await staged(database, connection, Overlap.CANCEL_RUNNING, due=2)
    await stage.ask(stage.next[0])
    await stage.ask(stage.next[1])
    await stage.end(stage.first, RETRY)
    assert await stage.start_queued() == stage.next[1:]
    assert await skips_of(connection, stage.job) == [Skipped.SUPERSEDED]


async def test_a_trigger_goes_before_a_run_that_only_waits_for_its_time(
    database: Database, connection: Any
) -> None:
    stage = Stage(database, connection)
    stage.node = await joined(database)
    # Near enough to be planned with its job, and too far to become due meanwhile.
    soon = await database_now(connection) + timedelta(seconds=8)
    stage.job = await created(
        database,
        cron_expression=None,
        interval_seconds=3600,
        interval_from=soon.strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    async with changing(database) as change:
        triggered = await change.trigger("job")
    assert triggered.task_id is not None
    key = TaskKey(stage.job.tenant_id, triggered.task_id)
    assert await stage.ask(key) == [key]
    (reserved, *_) = await make_due(connection, stage.job)
    assert (await stage.dispatch.claim(stage.node, [reserved])).deliveries == []
    assert await stage.ask(reserved) == []
    assert await skips_of(connection, stage.job) == [Skipped.OVERLAP]


async def test_a_run_that_is_paused_asks_when_it_is_resumed(
    database: Database, connection: Any
) -> None:
    """Another one may have taken its place."""
    stage = Stage(database, connection)
    stage.node = await joined(database)
    stage.job = await created(database, overlap_policy=Overlap.QUEUE)
    paused, second = await make_due(connection, stage.job, 2)
    tasks = PostgresTasks(database, Unheard(), 60.0)
    async with tasks.change(paused.tenant_id) as change:
        await change.pause(paused.id)
    assert await stage.ask(second) == [second]
    async with tasks.change(paused.tenant_id) as change:
        await change.resume(paused.id)
    assert await stage.ask(paused) == []
    assert await stage.state(paused) is State.BLOCKED


async def test_made_up_runs_are_queued_where_others_would_be_skipped(
    database: Database, connection: Any
) -> None:
    stage = await staged(database, connection, Overlap.SKIP)
    fire = stage.first.execute_at.replace(microsecond=0)
    async with changing(database) as change:
        done = await change.backfill(
            "job",
            fire.replace(year=fire.year - 1),
            fire.replace(year=fire.year - 1),
            10,
            dry_run=False,
        )
    assert len(done.planned) == 1
    (made_up,) = [row for row in await runs_of(connection, stage.job) if row["fire_at"] < fire]
    key = TaskKey(made_up["tenant_id"], made_up["id"])
    assert await stage.ask(key) == []
    assert await stage.state(key) is State.BLOCKED
    await stage.end(stage.first)
    assert await stage.start_queued() == [key]


async def test_a_run_that_is_locked_when_it_falls_due_is_looked_at_again(
    database: Database, connection: Any, database_dsn: str
) -> None:
    """It is neither claimed nor settled, and known to the node already: no scan would bring it."""
    job = await created(database, overlap_policy=Overlap.SKIP)
    (run,) = await make_due(connection, job)
    holder = await connected(database_dsn)
    try:
        held = holder.transaction()
        await held.start()
        await holder.execute("SELECT FROM gnomon.task WHERE id = $1 FOR UPDATE", run.id)
        async with running_node(database_dsn):
            # Due after the run: when it has ended, the run has been tried as well.
            new = submission(await database_now(connection), 0.0, target=PythonTarget("echo"))
            (after,) = await store(database, new)
            await end_of(connection, after)
            await held.rollback()
            await end_of(connection, run)
    finally:
        await holder.close()
