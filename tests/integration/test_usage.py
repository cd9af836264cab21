"""What is used is metered once, by the statements that use it."""

import asyncio
from collections.abc import Sequence
from datetime import date, timedelta
from uuid import UUID

from tests.integration.api_calls import LATER, TASKS, Api, call, submitted
from tests.integration.support import (
    Connection,
    archived,
    database_now,
    joined,
    settlement,
    store,
    submission,
)
from tests.usage_truth import metered, told
from tests.waiting import eventually

from gnomon.model.fleet.retention import RowKind
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import COMPLETE, Verdict, VerdictKind
from gnomon.pipe.envelope import Delivery
from gnomon.store.ports.dispatch import Settlement
from gnomon.store.ports.tenancy.usage import KEPT_DAYS
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.dispatch_store import PostgresDispatch
from gnomon.store.postgres.dispatch.roster import PostgresChores
from gnomon.store.postgres.tasks.inserting import insert

USAGE = "/api/v1/usage"
HEADER = "day,submissions,executions,compute_seconds,stored_bytes"
RETRY = Verdict(VerdictKind.RETRY)
DEAD = Verdict(VerdictKind.DEAD_LETTER)
RELEASE = Verdict(VerdictKind.RELEASE)


async def claimed(
    database: Database, connection: Connection, node: UUID, tenants: Sequence[str]
) -> list[Delivery]:
    """A task that runs, for each of these."""
    now = await database_now(connection)
    payloads = (None, b'{"n":1}', b'"' + b"x" * 5000 + b'"')
    keys = await store(
        database,
        *(submission(now, tenant_id=t, payload=payloads[i % 3]) for i, t in enumerate(tenants)),
    )
    return (await PostgresDispatch(database, 5.0).claim(node, keys)).deliveries


def settlements(deliveries: Sequence[Delivery]) -> list[Settlement]:
    """Every way that a try can end, in turn."""
    ways = [
        (COMPLETE, OutcomeKind.SUCCEEDED, {"result": '{"é":1}', "response_body": "gut"}),
        (RETRY, OutcomeKind.FAILED, {"response_body": "é" * 10, "error": "no"}),
        (DEAD, OutcomeKind.TIMED_OUT, {}),
        (RELEASE, None, {}),
        (RETRY, OutcomeKind.LOST, {}),
    ]
    made = []
    for number, delivery in enumerate(deliveries):
        verdict, outcome, values = ways[number % len(ways)]
        made.append(settlement(delivery, verdict, outcome, **values))
    return made


async def test_what_is_metered_is_what_the_rows_tell(
    database: Database, connection: Connection
) -> None:
    node = await joined(database)
    dispatch = PostgresDispatch(database, 5.0)
    deliveries = await claimed(database, connection, node, ["a", "b", "a", "b", "c"] * 9)
    await connection.execute(
        """
        UPDATE gnomon.task SET started_at = started_at - random() * interval '5 s',
            cancel_requested = lane + get_byte(uuid_send(id), 15) % 3 = 2
        """
    )
    made = settlements(deliveries)
    assert len(await dispatch.settle(made)) == len(made)
    assert await metered(connection.fetch) == await told(connection.fetch)
    before = await metered(connection.fetch)
    assert await dispatch.settle(made) == []  # told again, it is stale, and used nothing
    assert await metered(connection.fetch) == before
    tries = await connection.fetchval("SELECT count(*) FROM gnomon.all_executions")
    assert sum(used.executions for used in before.values()) == tries == 36


async def complete(session: Connection, run: Delivery, result: str | None = None) -> None:
    await session.execute(
        "SELECT gnomon.complete_run($1, $2, $3, $4, $5)",
        run.key.tenant_id,
        run.key.id,
        run.fence,
        run.incarnation,
        result,
    )


async def test_a_run_that_its_handler_completes_is_metered_with_it(
    database: Database, connection: Connection
) -> None:
    node = await joined(database)
    for run in await claimed(database, connection, node, ["a", "a", "b"]):
        transaction = connection.transaction()
        await transaction.start()
        await complete(connection, run, '"done"')
        await transaction.rollback()
        assert await archived(connection, run.key) is None
        await complete(connection, run, '"done"')
    used = await metered(connection.fetch)
    assert used == await told(connection.fetch)
    assert [used[tenant].executions for tenant in "ab"] == [2, 1]


async def test_nobody_waits_for_a_transaction_that_is_open(
    database: Database, connection: Connection
) -> None:
    """Whatever it has used: those who submit and settle for the same tenant go on."""
    node = await joined(database)
    dispatch = PostgresDispatch(database, 5.0)
    first, second, third = await claimed(database, connection, node, ["a"] * 3)
    now = await database_now(connection)
    async with connection.transaction(), database.transaction() as other:
        await complete(connection, first)
        await insert(other, [submission(now, tenant_id="a")])
        async with asyncio.timeout(4):
            await dispatch.settle([settlement(second)])
            await claimed(database, connection, node, ["a"])
            await PostgresChores(database).remove(RowKind.SESSIONS, 100, 7.0)
    await dispatch.settle([settlement(third)])
    assert await metered(connection.fetch) == await told(connection.fetch)


async def test_sessions_that_settle_for_many_tenants_do_not_meet(
    database: Database, connection: Connection
) -> None:
    """In whatever order their tasks come, and while the pruner gathers."""
    node = await joined(database)
    dispatch, chores = PostgresDispatch(database, 5.0), PostgresChores(database)
    tenants = [f"t{n}" for n in range(8)]
    settled = 0
    for turn in range(30):
        order = tenants[turn % 8 :] + tenants[: turn % 8]
        parts = [order, order[::-1], order[1::2] + order[::2], order[::2] + order[1::2]]
        running = [await claimed(database, connection, node, part) for part in parts]
        async with asyncio.TaskGroup() as group:
            group.create_task(chores.remove(RowKind.SESSIONS, 3, 7.0))
            tasks = [group.create_task(dispatch.settle(settlements(part))) for part in running]
        settled += sum(len(task.result()) for task in tasks)
        if turn % 10 == 5:  # all sessions but this one end
            await database.close()
            await database.open()
    assert settled == 30 * 4 * 8
    assert await metered(connection.fetch) == await told(connection.fetch)


async def test_what_sessions_leave_behind_is_gathered(
    database: Database, connection: Connection
) -> None:
    node = await joined(database)
    (run, other) = await claimed(database, connection, node, ["a", "a"])
    await PostgresDispatch(database, 5.0).settle([settlement(other)])
    await complete(connection, run)
    own = await connection.fetchval("SELECT pg_backend_pid()")
    before = await metered(connection.fetch)
    await database.close()
    await database.open()
    chores = PostgresChores(database)

    async def gathered() -> bool:
        await chores.remove(RowKind.SESSIONS, 1, 7.0)
        left = await connection.fetch("SELECT session FROM gnomon.usage ORDER BY session")
        return [row["session"] for row in left] == [0, own]

    await eventually(gathered)
    assert await metered(connection.fetch) == before == await told(connection.fetch)
    await connection.execute("UPDATE gnomon.usage SET day = day - 1")
    await chores.remove(RowKind.SESSIONS, 10, 7.0)
    assert await connection.fetchval("SELECT array_agg(session) FROM gnomon.usage") == [0]
    assert await metered(connection.fetch) == before


async def test_usage_is_told_by_the_day(api: Api, connection: Connection) -> None:
    assert (await call(api, "GET", USAGE, 200))["usage"] == []
    task = await submitted(api, LATER | {"payload": {"n": 1}})
    for patch in ({"payload": {"n": 234}}, {"payload": None}, {"name": "no bytes"}):
        await call(api, "PATCH", f"{TASKS}/{task['task_id']}", 200, patch)
    await call(api, "POST", f"{TASKS}/batch", 202, {"tasks": [LATER] * 3})
    now = await database_now(connection)
    today = now.date()
    await connection.executemany(
        "INSERT INTO gnomon.usage VALUES ($1, $2, 1, 1, 2, 0.5, 3)",
        [("default", today - timedelta(days=29)), ("default", today - timedelta(days=30)),
         ("other", today)],
    )  # fmt: skip
    answer = await call(api, "GET", USAGE, 200)
    month = (today - timedelta(days=29)).isoformat()
    assert (answer["from"], answer["to"]) == (month, today.isoformat())
    first = {"day": month, "submissions": 1, "executions": 2, "compute_seconds": 0.5,
             "stored_bytes": 3}  # fmt: skip
    assert answer["usage"][0] == first
    assert (answer["usage"][-1]["submissions"], answer["usage"][-1]["stored_bytes"]) == (4, 18)
    days = {"from": month, "to": month}
    assert (await call(api, "GET", USAGE, 200, params=days))["usage"] == [first]

    for asked, headers in (
        ({"format": "csv"}, {}),
        ({}, {"Accept": "text/csv"}),
        ({"format": "csv"}, {"Accept": "application/json"}),
    ):
        async with api.get(USAGE, params=days | asked, headers=headers) as csv:
            assert (csv.status, csv.content_type) == (200, "text/csv")
            assert (await csv.text()).splitlines() == [HEADER, f"{month},1,2,0.5,3"]
    everything = {"Accept": "text/csv;q=0.5, application/json"}
    assert await call(api, "GET", USAGE, 200, params=days, headers=everything)


async def test_a_range_has_its_bounds(api: Api) -> None:
    for first, last, pointer in (
        ("2026-11-30", "2026-11-01", "/to"),
        ("2025-10-26", "2026-11-30", "/from"),
        ("0001-01-01", "0001-01-02", "/to"),
        ("November", "2026-11-30", "/from"),
    ):
        problem = await call(api, "GET", USAGE, 422, params={"from": first, "to": last})
        assert [error["pointer"] for error in problem["errors"]] == [pointer]
    await call(api, "GET", USAGE, 200, params={"from": "2025-10-27", "to": "2026-11-30"})


async def test_old_days_are_forgotten(database: Database, connection: Connection) -> None:
    today: date = (await database_now(connection)).date()
    days = [today - timedelta(days=KEPT_DAYS + n) for n in (0, 1)]
    await connection.executemany(
        "INSERT INTO gnomon.usage (tenant_id, day, session) VALUES ('a', $1, 1)",
        [(d,) for d in days],
    )
    await PostgresChores(database).remove(RowKind.USAGE, 100, 7.0)
    assert [row["day"] for row in await connection.fetch("SELECT day FROM gnomon.usage")] == days[
        :1
    ]
