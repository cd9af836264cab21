"""The quota stored_bytes: what a tenant keeps is bounded, whatever it does with it."""

import asyncio
import secrets
from datetime import timedelta
from typing import Any

import pytest
from tests.integration.api_calls import LATER, TASKS, Api, call, put, submitted
from tests.integration.bulk_calls import Stepper
from tests.integration.cron_support import ALL_SHARDS, Unheard, created, ledger
from tests.integration.quota_calls import TENANT, give, over
from tests.integration.support import (
    Connection,
    database_now,
    joined,
    settlement,
    store,
    submission,
)

from gnomon.clock import SystemClock
from gnomon.cron.job import Skipped
from gnomon.cron.plan import plan
from gnomon.model.errors import QuotaExceeded
from gnomon.model.fleet.retention import RowKind
from gnomon.model.fleet.tenant import Quotas
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import Verdict, VerdictKind
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.store.ports.work.tasks import NewTask
from gnomon.store.postgres.cron.planning_store import PostgresPlanning
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.tasks.task_store import PostgresTasks
from gnomon.store.postgres.usage.storage import PostgresStorage

JOBS = "/api/v1/cron-jobs"
JOB: dict[str, Any] = {
    "task_type": "report",
    "callback_url": "http://127.0.0.1:9/hook",
    "overlap_policy": "allow",
}
# What tenants can choose the size of, wherever it is.
REALLY = """
    SELECT sum(bytes) FROM (
        SELECT octet_length(payload::text) AS bytes FROM gnomon.task
        UNION ALL SELECT octet_length(payload::text) FROM gnomon.task_archive
        UNION ALL SELECT octet_length(payload::text) FROM gnomon.task_payload
        UNION ALL SELECT octet_length(definition::text) FROM gnomon.cron_job
    ) AS kept
"""
LEVEL = "SELECT gnomon.stored_bytes($1)"


def text(size: int) -> str:
    """Of which nothing can be compressed away."""
    return secrets.token_urlsafe(size)[:size]


async def really(connection: Connection) -> int:
    return int(await connection.fetchval(REALLY) or 0)


async def level(connection: Connection) -> int:
    return int(await connection.fetchval(LEVEL, DEFAULT_TENANT))


async def count(database: Database) -> int | None:
    storage = PostgresStorage(database, SystemClock())
    ((known,), _) = await storage.levels([DEFAULT_TENANT])
    return await storage.count(known)


async def test_submitting_and_cancelling_does_not_fill_the_disk(
    api: Api, connection: Connection
) -> None:
    most = 200_000
    await give(connection, api, stored_bytes=most)
    body = LATER | {"payload": text(10_000)}
    for _ in range(100):
        async with api.post(TASKS, json=body) as answer:
            if answer.status == 429:
                break
            task = await answer.json()
        await call(api, "POST", f"{TASKS}/{task['task_id']}/cancel", 200)
    problem = await call(api, "POST", TASKS, 429, body)
    over(problem, "stored_bytes", most, await level(connection))
    assert most * 0.8 < await really(connection) <= most
    assert (await call(api, "GET", TENANT, 200))["use"]["stored_bytes"] == problem["used"]
    # What is there goes on: it can be read, cancelled and deleted.
    listed = await call(api, "GET", TASKS, 200)
    await call(api, "DELETE", f"{TASKS}/{listed['tasks'][0]['task_id']}", 204)


async def test_cron_jobs_with_large_templates_do_not_fill_the_disk(
    database: Database, connection: Connection
) -> None:
    """As nodes plan them, an hour long."""
    most = 400_000
    await connection.execute(
        "UPDATE gnomon.tenant SET quotas = $2 WHERE id = $1",
        DEFAULT_TENANT,
        '{"stored_bytes": 400000}',
    )
    planning = PostgresPlanning(
        database, SystemClock(), 10.0, quotas_of=lambda _: Quotas(stored_bytes=most)
    )
    template = b'"' + text(10_000).encode() + b'"'
    for name in ("one", "two"):
        await created(database, name=name, payload_template=template, interval_seconds=60)
    now = await database_now(connection)
    for minute in range(60):
        at = now + timedelta(minutes=minute)
        due = await planning.due(ALL_SHARDS, at + timedelta(seconds=70), 10)
        await planning.advance([plan(job, at, at + timedelta(seconds=70)) for job in due])
    assert most * 0.7 < await really(connection) <= most
    skipped = await connection.fetch(
        "SELECT skipped, missed FROM gnomon.occurrence WHERE task_id IS NULL"
    )
    # Some for each, and not one for every fire.
    assert {row["skipped"] for row in skipped} == {Skipped.NO_ROOM}
    assert 2 <= len(skipped) <= 30 < sum(row["missed"] for row in skipped)


async def test_cron_jobs_say_what_was_skipped_and_are_refused_beyond_the_quota(
    api: Api, database: Database, connection: Connection
) -> None:
    await give(connection, api, stored_bytes=100_000)
    body = JOB | {"interval_seconds": 1, "payload_template": text(20_000)}
    # The job itself has room, but not the runs of its first seconds.
    await call(api, "POST", JOBS, 201, body | {"name": "first"})
    ((run,),) = ((await call(api, "GET", f"{JOBS}/first/runs", 200))["runs"],)
    assert run["status"] == "SKIPPED"
    assert "stored_bytes" in run["reason"]
    await call(api, "POST", f"{JOBS}/first/trigger", 202)
    for name in ("second", "third"):
        await call(api, "POST", JOBS, 201, body | {"name": name})
    used = await level(connection)
    over(await call(api, "POST", JOBS, 429, body | {"name": "next"}), "stored_bytes", 100_000, used)
    longer = {"payload_template": text(90_000)}
    over(await call(api, "PATCH", f"{JOBS}/first", 429, longer), "stored_bytes", 100_000, used)
    past = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:01:00Z"}
    over(
        await call(api, "POST", f"{JOBS}/first/backfill", 429, past), "stored_bytes", 100_000, used
    )
    # What is smaller has room, and a count finds what went.
    await call(api, "PATCH", f"{JOBS}/first", 200, {"payload_template": None})
    await count(database)
    assert await level(connection) < used - 10_000


async def test_of_a_batch_so_many_are_stored_as_fit(
    database: Database, connection: Connection
) -> None:
    now = await database_now(connection)
    quotas = {"small": Quotas(stored_bytes=45_000), "large": Quotas(stored_bytes=10**9)}
    tasks = PostgresTasks(database, Unheard(), 60.0, lambda tenant: quotas.get(tenant, Quotas()))
    payload = b'"' + b"x" * 10_000 + b'"'
    batch = [
        NewTask(submission(now, 3600, tenant_id=tenant, payload=payload))
        for _ in range(6)
        for tenant in ("small", "none", "large")
    ]
    receipts = await tasks.insert(batch)
    refused = [r.refused for r in receipts]
    assert [r is None for r in refused[1::3]] == [r is None for r in refused[2::3]] == [True] * 6
    assert [r is None for r in refused[::3]] == [True] * 4 + [False] * 2
    assert isinstance(refused[-3], QuotaExceeded)
    assert refused[-3].over.quota == "stored_bytes"
    async with tasks.change("small") as change:
        with pytest.raises(QuotaExceeded, match="stored_bytes"):
            await change.insert([NewTask(submission(now, tenant_id="small", payload=payload))])
    stored = await connection.fetch("SELECT tenant_id, count(*) FROM gnomon.task GROUP BY 1")
    assert dict(map(tuple, stored)) == {"small": 4, "none": 6, "large": 6}


async def test_what_tasks_leave_behind_is_counted(
    database: Database, connection: Connection
) -> None:
    """Tries, their answers and results; and a count finds the same."""
    node = await joined(database)
    now = await database_now(connection)
    keys = await store(
        database,
        *(submission(now, payload=f'"{text(size)}"'.encode()) for size in (100, 5_000, 300)),
    )
    deliveries = (await PostgresDispatch(database, 5.0).claim(node, keys)).deliveries
    before = await level(connection)
    answers = [
        {"response_body": text(3_000), "result": f'"{text(2_000)}"'},
        {"response_body": text(3_000), "error": text(400)},
        {"error": text(400)},
    ]
    verdicts = [
        (Verdict(VerdictKind.COMPLETE), OutcomeKind.SUCCEEDED),
        (Verdict(VerdictKind.RETRY), OutcomeKind.FAILED),
        (Verdict(VerdictKind.DEAD_LETTER), OutcomeKind.FAILED),
    ]
    settlements = [
        settlement(delivery, verdict, outcome, **kept)
        for delivery, (verdict, outcome), kept in zip(deliveries, verdicts, answers, strict=True)
    ]
    await PostgresDispatch(database, 5.0).settle(settlements)
    known = await level(connection)
    assert known - before == pytest.approx(3_000 + 2_000 + 3_000 + 4 * 400 + 2 * 200, abs=10)
    assert await count(database) == pytest.approx(known, rel=0.1)
    assert await level(connection) == pytest.approx(known, rel=0.1)


async def test_a_count_finds_the_room_that_was_made(
    api: Api, connection: Connection, database: Database
) -> None:
    await give(connection, api, stored_bytes=100_000)
    body = LATER | {"payload": text(30_000)}
    tasks = [await submitted(api, body) for _ in range(3)]
    await call(api, "POST", TASKS, 429, body)
    for task in tasks[:2]:
        await call(api, "DELETE", f"{TASKS}/{task['task_id']}", 204)
    await count(database)
    await submitted(api, body)
    # What sessions have left behind is gathered, and changes nothing.
    known = await level(connection)
    await connection.execute("UPDATE gnomon.usage SET day = day - 1 WHERE session <> 0")
    assert (await PostgresChores(database).remove(RowKind.SESSIONS, 100, 30.0)).removed
    assert await level(connection) == known
    assert await connection.fetchval("SELECT sum(held_bytes) FROM gnomon.usage") == 0


async def test_of_two_counts_at_once_one_corrects(
    database: Database, connection: Connection
) -> None:
    now = await database_now(connection)
    await store(database, *(submission(now, payload=b'"%d"' % n) for n in range(5)))
    await connection.execute("DELETE FROM gnomon.task")
    counts = await asyncio.gather(*(count(database) for _ in range(4)))
    assert 0 in counts
    assert await level(connection) == 0


async def test_dead_letters_and_changes_are_refused_beyond_the_quota(
    api: Api, connection: Connection, database: Database
) -> None:
    task = await submitted(api, LATER | {"payload": "x"})
    dead = await submitted(api)
    await put(connection, dead["task_id"], "state = 4, due_at = gnomon.now()")
    await give(connection, api, stored_bytes=3_000)
    used = await level(connection)
    change = {"payload": text(5_000)}
    path = f"{TASKS}/{task['task_id']}"
    over(await call(api, "PATCH", path, 429, change), "stored_bytes", 3_000, used)
    await call(api, "PATCH", path, 200, {"payload": text(500)})
    assert await level(connection) == pytest.approx(used + 500, abs=5)
    await give(connection, api, stored_bytes=100)
    used = await level(connection)
    redrive = f"/api/v1/dead-letters/{dead['task_id']}/retry"
    over(await call(api, "POST", redrive, 429), "stored_bytes", 100, used)
    found = await Stepper(database, stored_bytes=100).done(api, {"action": "retry"})
    assert found["refusals"] == [{"reason": "the quota stored_bytes is used up", "count": 1}]


async def test_keys_and_their_answers_are_counted(
    api: Api, connection: Connection, database: Database
) -> None:
    bare = await submitted(api)
    alone = await level(connection)
    await call(api, "POST", TASKS, 202, LATER, headers={"Idempotency-Key": "k" * 200})
    key = await level(connection) - 2 * alone
    assert 800 < key < 2_000
    batch = {"tasks": [LATER] * 50}
    await call(api, "POST", f"{TASKS}/batch", 202, batch, headers={"Idempotency-Key": "batch"})
    kept = await connection.fetchval(
        "SELECT sum(octet_length(answer::text)) FROM gnomon.idempotency"
    )
    assert await level(connection) > 52 * alone + kept
    await connection.execute("DELETE FROM gnomon.task")
    assert await count(database) == pytest.approx(kept + 2 * 200 + 200, rel=0.6)
    assert bare["task_id"]


async def test_a_fire_without_room_is_one_entry(database: Database, connection: Connection) -> None:
    # Far from now: what fires within seconds is planned as the job is created.
    first = await database_now(connection) + timedelta(hours=1)
    job = await created(
        database, interval_seconds=60, interval_from=first.isoformat(), start_date=first
    )
    planning = PostgresPlanning(database, SystemClock(), 10.0, is_full=lambda: True)
    assert await planning.advance([plan(job, first, first + timedelta(seconds=30))]) == []
    (entry,) = await ledger(connection, job)
    assert (entry["task_id"], entry["skipped"]) == (None, Skipped.NO_ROOM)
    assert entry["missed"] == 6
