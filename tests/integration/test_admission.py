"""Quotas where tasks are stored: against a model, by many at once, with somebody in the way."""

import asyncio
import random
from collections import Counter
from datetime import datetime, timedelta

import pytest
from tests.conftest import connected
from tests.integration.quota_calls import stop_the_clock, turn
from tests.integration.support import Connection, blocked_by, database_now, submission
from tests.waiting import eventually

from gnomon.clock import SystemClock, new_id
from gnomon.model.errors import QuotaExceeded
from gnomon.model.fleet.tenant import Quotas
from gnomon.store.ports.work.tasks import NewTask, Once
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.hints import Announcer
from gnomon.store.postgres.queries import query
from gnomon.store.postgres.tasks.admitting import Asked
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.usecases.tasks.submission_batcher import WRITERS, SubmissionBatcher

SECOND = timedelta(seconds=1)
IDLE = "SHOW idle_in_transaction_session_timeout"
HELD_TENANT = "SELECT FROM gnomon.tenant_room WHERE tenant_id = 'held' FOR UPDATE"
HELD_KEY = """
INSERT INTO gnomon.idempotency (tenant_id, key, fingerprint, answer, expires_at)
SELECT 'held', 'k' || n, '', 'null', gnomon.now() - interval '1 second'
FROM generate_series(0, 9) AS n
"""
STORE = """
INSERT INTO gnomon.task (tenant_id, id, task_type, target)
SELECT 'a', id, 't', '{}' FROM unnest($1::uuid[]) AS id
"""


class Model:
    """What a tenant has stored, and when."""

    def __init__(self) -> None:
        self.log: list[tuple[datetime, int]] = []
        self.live = 0

    def within_a_second(self, now: datetime) -> int:
        return sum(number for at, number in self.log if at > now - SECOND)


@pytest.mark.parametrize("seed", range(4))
async def test_what_is_let_in_is_what_a_model_says(connection: Connection, seed: int) -> None:
    chance, model = random.Random(seed), Model()
    await stop_the_clock(connection)
    quotas = Quotas(scheduled_tasks=40, submissions_per_second=12)
    for _ in range(250):
        now = await turn(connection, chance.choice((0, 0.001, 0.004, 0.03, 0.09, 0.4)))
        if model.live and chance.random() < 0.3:
            model.live -= await _end(connection, chance.randint(1, 12))
        if chance.random() < 0.02:
            quotas = Quotas(scheduled_tasks=chance.randint(0, 60), submissions_per_second=12)
            await connection.execute("UPDATE gnomon.tenant_room SET quota = NULL")
        wanted, whole = chance.randint(1, 8), chance.random() < 0.3
        question = Asked({"a": quotas}, {"a": wanted}, whole, 1000)
        (row,) = await connection.fetch(query("admit"), *question.parameters())
        pace = 12 - model.within_a_second(now)
        most = min(wanted, pace, max(0, (quotas.scheduled_tasks or 0) - model.live))
        # Never more than fits; less only where a refusal, or some moments, are remembered.
        assert row["passed"] <= (0 if whole and most < wanted else most)
        assert row["pace"] <= pace
        if not any(now - SECOND - timedelta(milliseconds=10) < at <= now - SECOND
                   for at, _ in model.log):  # fmt: skip
            assert row["pace"] == pace
        await connection.execute(STORE, [new_id(now) for _ in range(row["passed"])])
        model.live += row["passed"]
        model.log.append((now, row["passed"]))
    assert model.live == await connection.fetchval("SELECT count(*) FROM gnomon.task")
    assert sum(number for _, number in model.log) > 100


async def _end(connection: Connection, most: int) -> int:
    rows = await connection.fetch(
        "DELETE FROM gnomon.task WHERE id IN (SELECT id FROM gnomon.task LIMIT $1) RETURNING 1",
        most,
    )
    return len(rows)


def _store(database: Database, dsn: str, quotas: dict[str, Quotas]) -> PostgresTasks:
    announcer = Announcer(dsn, SystemClock(), 15.0)
    return PostgresTasks(database, announcer, 60.0, lambda tenant: quotas.get(tenant, Quotas()))


async def test_batches_of_many_tenants_are_let_in_one_by_one_and_never_deadlock(
    database: Database, database_dsn: str, connection: Connection
) -> None:
    quotas = {f"t{n}": Quotas(scheduled_tasks=20 * n) for n in range(1, 6)}
    stores = [_store(database, database_dsn, quotas) for _ in range(2)]
    chance, now = random.Random(1), await database_now(connection)
    wanted: Counter[str] = Counter()
    batches = []
    for _ in range(60):
        tenants = [chance.choice(("free", *quotas)) for _ in range(chance.randint(1, 30))]
        wanted.update(tenants)
        batches.append([NewTask(submission(now, 60, tenant_id=tenant)) for tenant in tenants])

    async def insert(number: int, batch: list[NewTask]) -> list[NewTask]:
        receipts = await stores[number % 2].insert(batch)
        for receipt in receipts:
            if receipt.refused is not None:
                assert isinstance(receipt.refused, QuotaExceeded)
                assert receipt.refused.over.quota == "scheduled_tasks"
        return [new for new, r in zip(batch, receipts, strict=True) if r.refused is None]

    stored = await asyncio.gather(*(insert(n, batch) for n, batch in enumerate(batches)))
    accepted = Counter(new.submission.tenant_id for part in stored for new in part)
    bounds = {tenant: each.scheduled_tasks or 0 for tenant, each in quotas.items()}
    assert accepted == {t: min(n, bounds.get(t, n)) for t, n in wanted.items()}
    ids = {new.submission.id for part in stored for new in part}
    assert {row["id"] for row in await connection.fetch("SELECT id FROM gnomon.task")} == ids


async def test_a_tenant_that_is_held_up_holds_up_no_other(
    database: Database, database_dsn: str, connection: Connection
) -> None:
    quotas = {tenant: Quotas(scheduled_tasks=2) for tenant in ("held", "other")}
    store = _store(database, database_dsn, quotas)
    intake, now = SubmissionBatcher(store), await database_now(connection)
    for tenant in quotas:
        await store.insert([NewTask(submission(now, 60, tenant_id=tenant))])
    other = await connected(database_dsn)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(intake.run())
        async with other.transaction():
            await other.execute(HELD_TENANT)
            asking = {
                tenant: intake.submit(NewTask(submission(now, 60, tenant_id=tenant)))
                for tenant in ("held", "other", "free")
            }
            await asyncio.gather(asking["other"], asking["free"])
            assert not asking["held"].done()
            await eventually(lambda: blocked_by(other))
        await asking["held"]
        with pytest.raises(QuotaExceeded):
            await intake.submit(NewTask(submission(now, 60, tenant_id="held")))
        running.cancel()
    await other.close()


@pytest.mark.parametrize("lock", [HELD_TENANT, HELD_KEY], ids=["its row", "its keys"])
async def test_one_that_is_held_up_again_and_again_takes_no_writer_from_others(
    database: Database, database_dsn: str, connection: Connection, lock: str
) -> None:
    store = _store(database, database_dsn, {"held": Quotas(scheduled_tasks=10)})
    intake, now = SubmissionBatcher(store), await database_now(connection)
    await store.insert([NewTask(submission(now, 60, tenant_id="held"))])
    other = await connected(database_dsn)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(intake.run())
        async with other.transaction():
            await other.execute(lock)
            held = []
            for number in range(2 * WRITERS):
                key = Once(f"k{number}", b"") if lock == HELD_KEY else None
                new = NewTask(submission(now, 60, tenant_id="held"), key)
                held.append(intake.submit(new))
                await eventually(lambda: blocked_by(other))
            await intake.submit(NewTask(submission(now, 60, tenant_id="free")))
            assert not any(each.done() for each in held)
        stored = {receipt.task_id for receipt in await asyncio.gather(*held)}
        running.cancel()
    await other.close()
    rows = await connection.fetch("SELECT id FROM gnomon.task WHERE tenant_id = 'held'")
    assert stored < {row["id"] for row in rows}
    assert len(rows) == 1 + 2 * WRITERS


async def test_who_falls_silent_in_the_middle_is_ended(
    connection: Connection,
) -> None:
    before = await connection.fetchval(IDLE)
    question = Asked({"a": Quotas(scheduled_tasks=2)}, {"a": 1}, False, 1000)
    await connection.execute("BEGIN")
    await connection.fetch(query("admit"), *question.parameters())
    assert await connection.fetchval(IDLE) == "5s"
    await connection.execute("ROLLBACK")
    assert await connection.fetchval(IDLE) == before
    assert await connection.fetchval("SHOW lock_timeout") == "0"
