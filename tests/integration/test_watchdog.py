"""Fires that do not start within their window: one event each, whoever looks and dies meanwhile."""

import asyncio
from datetime import timedelta
from typing import Any

import aiohttp
import msgspec
import pytest
from structlog.testing import capture_logs
from tests.integration.cron_support import Unheard, changing, created, ledger, planned
from tests.integration.nodes import running_node
from tests.integration.support import Connection, database_now, joined, settlement
from tests.waiting import eventually

from gnomon.chores import Troubles
from gnomon.clock import SystemClock, new_id, new_incarnation
from gnomon.cron.job import CronJob, Missed
from gnomon.model.errors import LeaseLost
from gnomon.model.fleet.retention import RowKind
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import EXPIRE, Verdict, VerdictKind
from gnomon.model.tasks.task import DEFAULT_TENANT, TaskKey
from gnomon.node.maintenance.watchdog import Watchdog, WatchResult
from gnomon.node.membership.lease import Lease
from gnomon.observe.events import SlaMissed, fan_out, to_log
from gnomon.observe.metrics.node import NodeMetrics
from gnomon.pipe.envelope import Delivery
from gnomon.store.ports.roster import Removal
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.events.event_reader import PostgresWatch
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.testing import turned_clock

SLA = 60.0
GRACE = 10.0
RETRY = Verdict(VerdictKind.RETRY)
RELEASE = Verdict(VerdictKind.RELEASE)
FINE = WatchResult(held=True, judged=1, missed=0)
MISSED = WatchResult(held=True, judged=1, missed=1)
NOTHING = WatchResult(held=True)


class Stage:
    """A job whose first fire is planned and due, a watchdog, and a clock to turn."""

    def __init__(self, database: Database, connection: Connection) -> None:
        self.database = database
        self.connection = connection
        self.dispatch = PostgresDispatch(database, GRACE)
        self.told: list[Any] = []
        self.metrics = NodeMetrics()
        self.dog = self.watchdog()

    def watchdog(self) -> Watchdog:
        emit = fan_out(self.told.append, self.metrics, to_log)
        lease = Lease(new_incarnation(), 10.0)
        watch, chores = PostgresWatch(self.database, GRACE), PostgresChores(self.database)
        clock = SystemClock()
        return Watchdog(watch, chores, lease, clock, emit, Troubles(clock, emit))

    async def turn(self, seconds: float) -> None:
        await turned_clock.turn(self.connection, seconds)

    async def created(self, **values: Any) -> CronJob:
        return await created(
            self.database, **({"interval_seconds": 3600, "sla_seconds": SLA} | values)
        )

    async def fire(self, **values: Any) -> None:
        """Plan a run, and turn the clock to just after its time."""
        self.node = await joined(self.database)
        self.job = await self.created(**values)
        assert self.job.next_fire_at is not None
        now = await database_now(self.connection)
        await self.turn((self.job.next_fire_at - now).total_seconds() - 5)
        (entry,) = await planned(self.database, self.job)
        self.key = entry.key
        await self.turn(6)

    async def start(self) -> Delivery:
        (delivery,) = (await self.dispatch.claim(self.node, [self.key])).deliveries
        return delivery

    async def events(self) -> list[Any]:
        return list(await self.connection.fetch("SELECT * FROM gnomon.event ORDER BY id"))


@pytest.fixture
async def stage(database: Database, connection: Connection) -> Stage:
    await turned_clock.install(connection)
    return Stage(database, connection)


async def test_a_run_that_nobody_starts_raises_one_event(stage: Stage) -> None:
    await stage.fire()
    await stage.turn(SLA - 10)
    assert await stage.dog.run_once() == NOTHING
    await stage.turn(12)
    with capture_logs() as lines:
        assert await stage.dog.run_once() == MISSED
        assert await stage.dog.run_once() == NOTHING
    (event,) = await stage.events()
    (entry,) = await ledger(stage.connection, stage.job)
    assert (event["kind"], event["tenant_id"]) == ("cron.sla_missed", DEFAULT_TENANT)
    assert (event["cron_job_id"], event["task_id"]) == (stage.job.id, stage.key.id)
    assert event["at"] == entry["sla_missed_at"]
    assert entry["sla_at"] is None
    fire_at = entry["fire_at"]
    assert msgspec.json.decode(event["detail"]) == {
        "cron_job": "job",
        "fire_at": msgspec.to_builtins(fire_at),
        "sla_at": msgspec.to_builtins(fire_at + timedelta(seconds=SLA)),
        "sla_seconds": SLA,
        "started_at": None,
        "missed": 0,
    }
    (told,) = stage.told
    assert isinstance(told, SlaMissed)
    assert (told.event_id, told.cron_job, told.fire_at) == (event["id"], "job", fire_at)
    assert [line["job"] for line in lines if line.get("kind") == "cron.sla_missed"] == ["job"]
    assert stage.metrics.registry.get_sample_value("gnomon_cron_sla_missed_total") == 1


async def test_a_template_may_hold_what_text_cannot(stage: Stage) -> None:
    """PostgreSQL keeps such JSON, and cannot read it."""
    template = rb'{"\u0000":"\u0000","\\":"\\u0000","sla_seconds":1}'
    await stage.fire(payload_template=msgspec.Raw(template))
    await stage.turn(SLA + 2)
    assert await stage.dog.run_once() == MISSED
    (event,) = await stage.events()
    assert msgspec.json.decode(event["detail"])["sla_seconds"] == SLA


async def test_a_run_that_started_in_time_raises_none(stage: Stage) -> None:
    await stage.fire()
    delivery = await stage.start()
    await stage.turn(SLA)
    assert await stage.dog.run_once() == FINE
    (entry,) = await ledger(stage.connection, stage.job)
    assert (entry["sla_at"], entry["sla_missed_at"]) == (None, None)
    await stage.dispatch.settle([settlement(delivery)])
    assert await stage.dog.run_once() == NOTHING
    assert await stage.events() == []


async def test_the_first_start_of_a_run_that_was_retried_counts(stage: Stage) -> None:
    await stage.fire()
    await stage.dispatch.settle([settlement(await stage.start(), RETRY, OutcomeKind.FAILED)])
    await stage.turn(SLA + 1)
    await stage.dispatch.settle([settlement(await stage.start())])
    assert await stage.dog.run_once() == FINE
    assert await stage.events() == []


@pytest.mark.parametrize("ended", [False, True])
async def test_a_run_that_started_late_raises_one(stage: Stage, ended: bool) -> None:
    await stage.fire()
    await stage.turn(SLA)
    delivery = await stage.start()
    if ended:
        await stage.dispatch.settle([settlement(delivery)])
    await stage.turn(1)
    assert await stage.dog.run_once() == MISSED
    (event,) = await stage.events()
    assert msgspec.json.decode(event["detail"])["started_at"] is not None


async def test_a_claim_counts_only_once_it_cannot_be_given_back(stage: Stage) -> None:
    await stage.fire()
    await stage.turn(SLA - 5)
    delivery = await stage.start()
    await stage.turn(6)
    assert await stage.dog.run_once() == NOTHING
    # Nor is its job to blame for a fire that cannot be judged.
    assert await PostgresWatch(stage.database, GRACE).next_job([]) is None
    await stage.dispatch.settle([settlement(delivery, RELEASE, None)])
    assert await stage.dog.run_once() == MISSED


async def test_an_expired_run_raises_one(stage: Stage) -> None:
    await stage.fire(missed_run_policy=Missed.SKIP)
    await stage.turn(SLA - 10)
    delivery = await stage.start()
    assert delivery.expired
    await stage.dispatch.settle([settlement(delivery, EXPIRE, None)])
    await stage.turn(12)
    assert await stage.dog.run_once() == MISSED


async def test_fires_that_were_missed_together_raise_one(stage: Stage) -> None:
    job = await stage.created(missed_run_policy=Missed.SKIP)
    assert job.next_fire_at is not None
    late = job.next_fire_at - await database_now(stage.connection) + timedelta(hours=2, minutes=9)
    await stage.turn(late.total_seconds())
    assert await planned(stage.database, job) == []
    assert await stage.dog.run_once() == MISSED
    (event,) = await stage.events()
    detail = msgspec.json.decode(event["detail"])
    assert (event["task_id"], detail["missed"], detail["cron_job"]) == (None, 3, "job")
    last = job.next_fire_at + timedelta(hours=2)
    assert detail["fire_at"] == msgspec.to_builtins(last)
    # Made up for afterwards, and late again: the fire is known to have missed its time.
    async with changing(stage.database) as change:
        await change.backfill(str(job.id), last, last, 10, dry_run=False)
    await stage.turn(3600)
    await stage.dog.run_once()
    assert len(await stage.events()) == 1


async def test_a_run_that_somebody_took_away_was_not_missed(stage: Stage) -> None:
    await stage.fire(name="cancelled")
    await _cancel(stage, stage.key)
    await stage.fire(name="deleted")
    await stage.connection.execute("DELETE FROM gnomon.task WHERE id = $1", stage.key.id)
    await stage.turn(SLA + 1)
    assert await stage.dog.run_once() == WatchResult(held=True, judged=2)
    assert await stage.events() == []


async def test_a_run_that_was_cancelled_too_late_was_missed(stage: Stage) -> None:
    await stage.fire()
    await stage.turn(SLA + 1)
    await _cancel(stage, stage.key)
    assert await stage.dog.run_once() == MISSED


async def _cancel(stage: Stage, key: TaskKey) -> None:
    async with PostgresTasks(stage.database, Unheard(), 60.0).change(key.tenant_id) as change:
        await change.cancel(key.id, interrupt=False)


async def test_a_job_without_a_window_is_not_watched(stage: Stage) -> None:
    await stage.fire(sla_seconds=None)
    await stage.turn(86400)
    assert await stage.dog.run_once() == NOTHING


async def test_a_job_may_be_deleted_meanwhile(stage: Stage) -> None:
    await stage.fire()
    await stage.turn(SLA)
    await stage.start()
    await stage.turn(1)
    async with changing(stage.database) as change:
        await change.delete("job")
    assert await stage.dog.run_once() == MISSED
    (event,) = await stage.events()
    detail = msgspec.json.decode(event["detail"])
    assert event["cron_job_id"] == stage.job.id
    assert (detail["cron_job"], detail["sla_seconds"]) == (None, None)


async def test_a_death_before_the_commit_leaves_it_to_the_next(stage: Stage) -> None:
    await stage.fire()
    await stage.turn(SLA + 1)

    async def die_at_work() -> None:
        async with stage.database.transaction() as connection:
            found = await connection.fetch(
                query("judge_fires"), [new_id(now)], 1.0, GRACE, "kind", []
            )
            assert found[0]["event_id"] is not None
            # Nobody waits for what another has in hand.
            assert await stage.dog.run_once() == NOTHING
            raise LeaseLost("before the commit")

    now = await database_now(stage.connection)
    with pytest.raises(LeaseLost):
        await die_at_work()
    assert await stage.dog.run_once() == MISSED
    assert len(await stage.events()) == 1


async def test_those_who_look_at_once_find_each_miss_once(stage: Stage) -> None:
    await _missed_fires(stage, 300)
    watch = PostgresWatch(stage.database, GRACE)
    now = await database_now(stage.connection)

    async def look() -> list[SlaMissed]:
        found: list[SlaMissed] = []
        for _ in range(20):
            judged = await watch.judge(sorted(new_id(now) for _ in range(50)))
            found += judged.missed
        return found

    found = [
        each for looker in await asyncio.gather(*(look() for _ in range(6))) for each in looker
    ]
    assert len(found) == len({each.fire_at for each in found}) == 300
    assert {each.event_id for each in found} == {row["id"] for row in await stage.events()}


async def test_a_pass_takes_all_that_there_is_in_order(stage: Stage) -> None:
    await _missed_fires(stage, 450)
    assert await stage.dog.run_once() == WatchResult(held=True, judged=450, missed=450)
    fires = [each.fire_at for each in stage.told]
    assert fires == sorted(fires)


async def _missed_fires(stage: Stage, count: int) -> None:
    job = await stage.created()
    await stage.connection.execute(
        """
        INSERT INTO gnomon.occurrence (cron_job_id, fire_at, tenant_id, skipped, missed, sla_at)
        SELECT $1, at, 'default', 0, 1, at
        FROM (
            SELECT date_trunc('second', (SELECT gnomon.now())) - make_interval(secs => n) AS at
            FROM generate_series(10, 9 + $2) AS n
        ) AS fires
        """,
        job.id,
        count,
    )


async def test_one_watches_until_it_is_gone(stage: Stage) -> None:
    other = stage.watchdog()
    assert (await stage.dog.run_once()).held
    assert not (await other.run_once()).held
    await stage.turn(6)
    assert (await other.run_once()).held
    assert not (await stage.dog.run_once()).held


async def test_events_go_with_their_retention(stage: Stage) -> None:
    now = await database_now(stage.connection)
    for tenant, days in (("a", 8), ("a", 6), ("b", 9), ("b", 8), ("c", 1)):
        at = now - timedelta(days=days)
        await stage.connection.execute(
            "INSERT INTO gnomon.event VALUES ($1, $2, 'kind', $3, NULL, NULL, '{}')",
            tenant,
            new_id(at),
            at,
        )
    chores = PostgresChores(stage.database)
    assert await chores.remove(RowKind.EVENTS, 2, 7.0) == Removal(2, more=True)
    assert await chores.remove(RowKind.EVENTS, 2, 7.0) == Removal(1, more=False)
    rows = await stage.connection.fetch("SELECT tenant_id FROM gnomon.event ORDER BY 1")
    assert [row["tenant_id"] for row in rows] == ["a", "c"]


async def test_a_node_watches_and_counts(
    stage: Stage, database_dsn: str, unused_tcp_port: int
) -> None:
    await _missed_fires(stage, 3)

    async def counted() -> bool:
        async with aiohttp.ClientSession() as client:
            url = f"http://127.0.0.1:{unused_tcp_port}/metrics"
            async with client.get(url) as answer:
                return "\ngnomon_cron_sla_missed_total 3.0\n" in await answer.text()

    async with running_node(database_dsn, output_metrics_port=unused_tcp_port):
        await eventually(counted)
    # Its other chores may have noticed something meanwhile.
    assert [event["kind"] for event in await stage.events()].count("cron.sla_missed") == 3
