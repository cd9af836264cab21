"""The contract of the planning port, as tests: derive from it and give it a `world`.

    class TestMine(PlanningContract):
        @pytest.fixture
        async def world(self) -> PlanningWorld:
            return MyWorld()  # with an empty store, and a grace of `GRACE`

The tests are coroutines: run them with pytest-asyncio or the like, in its auto mode. To see what
they compare, call `pytest.register_assert_rewrite("gnomon.testing.contracts")` before they are
imported.
"""

import asyncio
from datetime import datetime, timedelta
from typing import Any

from gnomon.cron.job import CronJob, Definition, Missed, Overlap, Skipped
from gnomon.cron.plan import plan
from gnomon.model.fleet.shard import SHARDS, shard_of
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import Verdict, VerdictKind
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.lifecycle import State, Status
from gnomon.model.tasks.task import TaskKey
from gnomon.pipe.envelope import Delivery
from gnomon.store.ports.dispatch import Entry
from gnomon.testing.contracts.store_world import (
    HOUR,
    PlanningWorld,
    declared_dead,
    joined,
    settlement,
)

SECOND = timedelta(seconds=1)
ALL_SHARDS = range(SHARDS)
RETRY = Verdict(VerdictKind.RETRY, delay=3600.0, spends=True)


async def a_job(world: PlanningWorld, name: str = "job", **values: Any) -> CronJob:
    """A job that fires every second from an hour ahead on: nothing of it is planned yet."""
    fields: dict[str, Any] = {
        "name": name,
        "task_type": "test",
        "target": PythonTarget("nothing"),
        "cron_expression": "* * * * * *",
        "start_date": await world.now() + HOUR,
        "missed_after_seconds": 600.0,  # the test may be slow
    }
    return await world.create(Definition(**(fields | values)))


def next_fire(job: CronJob) -> datetime:
    assert job.next_fire_at is not None
    return job.next_fire_at


async def planned(world: PlanningWorld, job: CronJob, count: int) -> list[Entry]:
    """Plan the next fires of a job, ahead of their time."""
    first = next_fire(job)
    return await world.planning.advance([plan(job, first - SECOND, first + (count - 1) * SECOND)])


class Stage:
    """A job whose first run is under way on a node, and whose next runs are due."""

    def __init__(self, world: PlanningWorld, job: CronJob, first: Delivery) -> None:
        self.world = world
        self.job = job
        self.key = TaskKey(job.tenant_id, job.id)
        self.first = first
        self.node = first.incarnation
        self.next: list[TaskKey] = []

    async def claim(self, *keys: TaskKey) -> list[TaskKey]:
        """Claim runs; gives those that may start."""
        answer = await self.world.planning.claim_runs(self.node, keys)
        return [delivery.key for delivery in answer.claim.deliveries]

    async def start_queued(self) -> list[TaskKey]:
        return [entry.key for entry in await self.world.planning.start_queued([self.key])]

    async def status(self, key: TaskKey) -> Status:
        return (await self.world.task(key)).status

    async def end_first(self) -> None:
        assert len(await self.world.dispatch.settle([settlement(self.first)])) == 1


async def staged(world: PlanningWorld, policy: Overlap, due: int = 1) -> Stage:
    job = await a_job(world, overlap_policy=policy)
    entries = await planned(world, job, 1 + due)
    keys = [entry.key for entry in sorted(entries, key=lambda entry: entry.due_at)]
    node = await joined(world.roster)
    ahead = next_fire(job) + (due + 1) * SECOND - await world.now()
    await world.turn(ahead.total_seconds())
    (first,) = (await world.dispatch.claim(node, keys[:1])).deliveries
    stage = Stage(world, job, first)
    stage.next = keys[1:]
    return stage


class FiringContract:
    """How fires become runs."""

    async def test_due_jobs_are_those_that_fire_by_then_in_these_shards(
        self, world: PlanningWorld
    ) -> None:
        job, other = await a_job(world, "one"), await a_job(world, "two")
        fire = max(next_fire(job), next_fire(other))
        due = await world.planning.due(ALL_SHARDS, fire, 10)
        assert {each.id for each in due} == {job.id, other.id}
        assert await world.planning.due(ALL_SHARDS, fire - 60 * SECOND, 10) == []
        mine = await world.planning.due([shard_of(job.id)], fire, 10, aside=[other.id])
        assert mine == [job]
        elsewhere = [s for s in ALL_SHARDS if s not in (shard_of(job.id), shard_of(other.id))]
        assert await world.planning.due(elsewhere, fire, 10) == []

    async def test_a_fire_becomes_one_run_however_often_it_is_planned(
        self, world: PlanningWorld
    ) -> None:
        job = await a_job(world)
        answers = await asyncio.gather(*(planned(world, job, 3) for _ in range(3)))
        (entries,) = [answer for answer in answers if answer]
        assert len(entries) == 3
        assert await planned(world, job, 3) == []
        runs = await world.runs(job.id)
        assert {run.task_id for run in runs} == {entry.key.id for entry in entries}
        moved = await world.job(job.id)
        assert (moved.next_fire_at, moved.runs) == (next_fire(job) + 3 * SECOND, 3)
        assert {run.fire_at for run in runs} == {next_fire(job) + n * SECOND for n in range(3)}

    async def test_a_run_lies_in_the_shard_of_its_job_and_is_due_at_its_fire(
        self, world: PlanningWorld
    ) -> None:
        job = await a_job(world)
        entries = await planned(world, job, 3)
        assert {shard_of(entry.key.id) for entry in entries} == {shard_of(job.id)}
        assert all(entry.recurring for entry in entries)
        due = sorted(entry.due_at for entry in entries)
        assert due == [next_fire(job) + n * SECOND for n in range(3)]

    async def test_a_plan_that_comes_too_late_changes_nothing(self, world: PlanningWorld) -> None:
        job = await a_job(world)
        await world.planning.park(job, "it cannot be planned")
        parked = await world.job(job.id)
        assert (parked.next_fire_at, parked.pause_reason) == (None, "it cannot be planned")
        assert parked.paused_at is not None
        assert await planned(world, job, 1) == []
        assert await world.runs(job.id) == []
        await world.planning.park(job, "another reason")  # made from an older version as well
        assert (await world.job(job.id)).pause_reason == "it cannot be planned"

    async def test_a_plan_made_before_a_run_by_hand_changes_nothing(
        self, world: PlanningWorld
    ) -> None:
        """The plan does not know of that run, which may be active."""
        job = await a_job(world)
        await world.trigger(job.id)
        assert await planned(world, job, 1) == []
        assert len(await planned(world, await world.job(job.id), 1)) == 1

    async def test_missed_fires_leave_one_entry_that_counts_them(
        self, world: PlanningWorld
    ) -> None:
        job = await a_job(world, missed_run_policy=Missed.SKIP, missed_after_seconds=1.0)
        late = next_fire(job) + 60 * SECOND
        made = plan(job, late, late)
        await world.planning.advance([made])
        (entry,) = [run for run in await world.runs(job.id) if run.skipped is not None]
        assert (entry.skipped, entry.missed, entry.task_id) == (Skipped.MISSED, made.missed, None)
        assert made.missed > 50

    async def test_no_run_starts_before_its_fire(self, world: PlanningWorld) -> None:
        job = await a_job(world)
        entries = sorted(await planned(world, job, 2), key=lambda entry: entry.due_at)
        keys = [entry.key for entry in entries]
        node = await joined(world.roster)
        assert (await world.dispatch.claim(node, keys)).deliveries == []
        answer = await world.planning.claim_runs(node, keys)
        assert (answer.claim.deliveries, answer.settled) == ([], [])
        await world.turn(3700.0)
        # Asking early has not cost the first run its place.
        assert len((await world.dispatch.claim(node, keys[:1])).deliveries) == 1


class OverlapContract:
    """Which runs of a job may start."""

    async def test_a_run_that_would_overlap_starts_only_with_the_consent_of_its_job(
        self, world: PlanningWorld
    ) -> None:
        stage = await staged(world, Overlap.SKIP)
        assert (await world.dispatch.claim(stage.node, stage.next)).deliveries == []
        await stage.end_first()
        assert (await world.dispatch.claim(stage.node, stage.next)).deliveries == []
        assert await stage.claim(*stage.next) == stage.next

    async def test_a_run_that_was_let_start_is_the_active_one(self, world: PlanningWorld) -> None:
        stage = await staged(world, Overlap.SKIP, due=2)
        await stage.end_first()
        assert await stage.claim(stage.next[0]) == stage.next[:1]
        assert await stage.claim(stage.next[1]) == []
        assert await stage.status(stage.next[1]) is Status.CANCELLED

    async def test_a_dead_node_starts_no_run(self, world: PlanningWorld) -> None:
        stage = await staged(world, Overlap.SKIP)
        await stage.end_first()
        await declared_dead(world.roster, stage.node)
        assert await stage.claim(*stage.next) == []

    async def test_allow_starts_them_all(self, world: PlanningWorld) -> None:
        stage = await staged(world, Overlap.ALLOW, due=2)
        deliveries = (await world.dispatch.claim(stage.node, stage.next)).deliveries
        assert [delivery.key for delivery in deliveries] == stage.next

    async def test_skip_skips_and_says_so_in_the_ledger(self, world: PlanningWorld) -> None:
        stage = await staged(world, Overlap.SKIP)
        answer = await world.planning.claim_runs(stage.node, stage.next)
        assert (answer.claim.deliveries, answer.settled) == ([], stage.next)
        assert answer.skipped == [Skipped.OVERLAP]
        assert await stage.status(stage.next[0]) is Status.CANCELLED
        (skipped,) = [r for r in await world.runs(stage.job.id) if r.skipped is not None]
        assert (skipped.skipped, skipped.task_id) == (Skipped.OVERLAP, stage.next[0].id)

    async def test_a_run_that_waits_for_its_retry_is_active(self, world: PlanningWorld) -> None:
        stage = await staged(world, Overlap.SKIP)
        await world.dispatch.settle([settlement(stage.first, RETRY, OutcomeKind.FAILED)])
        assert await stage.claim(*stage.next) == []
        assert await stage.status(stage.next[0]) is Status.CANCELLED

    async def test_queued_runs_start_one_after_the_other_in_order(
        self, world: PlanningWorld
    ) -> None:
        stage = await staged(world, Overlap.QUEUE, due=2)
        assert await stage.claim(*stage.next) == []
        assert [await stage.status(key) for key in stage.next] == [Status.BLOCKED] * 2
        assert await world.planning.queued(ALL_SHARDS, 10) == [stage.key]
        assert await world.planning.queued([], 10) == []
        assert await stage.start_queued() == []  # the first one has not ended
        await stage.end_first()
        assert await stage.start_queued() == stage.next[:1]
        (second,) = (await world.dispatch.claim(stage.node, stage.next)).deliveries
        assert await stage.start_queued() == []
        await world.dispatch.settle([settlement(second)])
        assert await stage.start_queued() == stage.next[1:]
        assert await world.planning.queued(ALL_SHARDS, 10) == []

    async def test_cancel_running_ends_the_active_run_and_takes_its_place(
        self, world: PlanningWorld
    ) -> None:
        stage = await staged(world, Overlap.CANCEL_RUNNING)
        assert await stage.claim(*stage.next) == []
        assert (await world.task(stage.first.key)).cancel_requested
        ended = settlement(stage.first, RETRY, OutcomeKind.CANCELLED)
        (settled,) = await world.dispatch.settle([ended])
        assert settled.state is State.CANCELLED
        assert settled.cron_job_id == stage.job.id
        assert await stage.start_queued() == stage.next

    async def test_the_last_run_to_come_replaces_those_that_waited_before_it(
        self, world: PlanningWorld
    ) -> None:
        stage = await staged(world, Overlap.CANCEL_RUNNING, due=2)
        for key in stage.next:
            assert await stage.claim(key) == []
        assert [await stage.status(key) for key in stage.next] == [
            Status.CANCELLED,
            Status.BLOCKED,
        ]
        (skipped,) = [r for r in await world.runs(stage.job.id) if r.skipped is not None]
        assert (skipped.skipped, skipped.task_id) == (Skipped.SUPERSEDED, stage.next[0].id)
        await stage.end_first()
        assert await stage.start_queued() == stage.next[1:]

    async def test_a_run_that_comes_before_the_reserved_one_goes_first(
        self, world: PlanningWorld
    ) -> None:
        job = await a_job(world, overlap_policy=Overlap.QUEUE)
        (reserved,) = await planned(world, job, 1)
        await world.trigger(job.id)
        node = await joined(world.roster)
        (by_hand,) = [
            TaskKey(job.tenant_id, run.task_id)
            for run in await world.runs(job.id)
            if run.task_id is not None and run.task_id != reserved.key.id
        ]
        assert len((await world.dispatch.claim(node, [by_hand])).deliveries) == 1
        await world.turn(3700.0)
        assert (await world.dispatch.claim(node, [reserved.key])).deliveries == []
        answer = await world.planning.claim_runs(node, [reserved.key])
        assert (answer.claim.deliveries, answer.settled) == ([], [reserved.key])

    async def test_a_run_that_asks_takes_the_place_of_one_that_waits_for_its_time(
        self, world: PlanningWorld
    ) -> None:
        job = await a_job(world, overlap_policy=Overlap.QUEUE, cron_expression="0 * * * * *")
        fire, minute = next_fire(job), 60 * SECOND
        both = await world.planning.advance([plan(job, fire - SECOND, fire + minute)])
        first, second = (e.key for e in sorted(both, key=lambda entry: entry.due_at))
        node = await joined(world.roster)
        await world.turn((fire + minute + SECOND - await world.now()).total_seconds())
        (delivery,) = (await world.dispatch.claim(node, [first])).deliveries
        await world.dispatch.settle([settlement(delivery)])
        # Nobody is active, so the next run that is planned has the place of the active one.
        (reserved,) = await planned(world, await world.job(job.id), 1)
        answer = await world.planning.claim_runs(node, [second])
        assert [d.key for d in answer.claim.deliveries] == [second]
        await world.turn(60.0)
        assert (await world.dispatch.claim(node, [reserved.key])).deliveries == []
        answer = await world.planning.claim_runs(node, [reserved.key])
        assert (answer.claim.deliveries, answer.settled) == ([], [reserved.key])

    async def test_of_two_nodes_that_ask_at_once_one_starts_a_run(
        self, world: PlanningWorld
    ) -> None:
        stage = await staged(world, Overlap.QUEUE, due=4)
        await stage.end_first()
        other = await joined(world.roster, "other")
        answers = await asyncio.gather(
            world.planning.claim_runs(stage.node, stage.next[:2]),
            world.planning.claim_runs(other, stage.next[2:]),
        )
        started = [delivery for answer in answers for delivery in answer.claim.deliveries]
        assert len(started) == 1


class PlanningContract(FiringContract, OverlapContract):
    """The suite."""
