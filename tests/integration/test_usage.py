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

from gnomon.model.outcome import OutcomeKind
from gnomon.model.verdict import COMPLETE, Verdict, VerdictKind
from gnomon.pipe.envelope import Delivery
from gnomon.store.port import Settlement
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatching import PostgresDispatch
from gnomon.store.postgres.nodes import PostgresChores
from gnomon.store.postgres.queries import query
from gnomon.store.usage_port import KEPT_DAYS

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
    tries = await connection.fetchval("SELECT count(*) FROM gnomon.try")
    assert sum(used.executions for used in before.values()) == tries == 36


async def test_a_run_that_its_handler_completes_is_metered_with_it(
    database: Database, connection: Connection
) -> None:
    node = await joined(database)
    deliveries = await claimed(database, connection, node, ["a", "a", "b"])
    complete = "SELECT gnomon.complete_run($1, $2, $3, $4, $5)"
    for delivery in deliveries:
        key = delivery.key
        async with database.connection() as other:
            transaction = other.transaction()
            await transaction.start()
            await other.execute(complete, key.tenant_id, key.id, delivery.fence, node, '"done"')
            await transaction.rollback()
        assert await archived(connection, key) is None
        await connection.execute(complete, key.tenant_id, key.id, delivery.fence, node, '"done"')
    used = await metered(connection.fetch)
    assert used == await told(connection.fetch)
    assert [used[tenant].executions for tenant in "ab"] == [2, 1]
    chores = PostgresChores(database)
    await chores.forget(2)
    await chores.forget(2)
    assert await metered(connection.fetch) == await told(connection.fetch)
    slots = await connection.fetch("SELECT slot FROM gnomon.usage WHERE slot < 0 OR slot > 127")
    assert [row["slot"] for row in slots] == [-1, -1]


async def test_an_open_transaction_of_a_handler_holds_up_nobody(
    database: Database, connection: Connection
) -> None:
    node = await joined(database)
    first, second, third = await claimed(database, connection, node, ["a"] * 3)
    # The same slots for all of them, as if their sessions had the same number.
    async with connection.transaction(), database.transaction() as other:
        for session, run in ((connection, first), (other, second)):
            await session.execute(
                "SELECT gnomon.complete_run($1, $2, $3, $4)", "a", run.key.id, run.fence, node
            )
        async with asyncio.timeout(4):
            await PostgresDispatch(database, 5.0).settle([settlement(third)])
            await claimed(database, connection, node, ["a"])


async def test_writers_of_many_tenants_never_wait_for_each_other_in_a_circle(
    database: Database, connection: Connection
) -> None:
    """All sessions write to the same rows, in whatever order their tasks come."""
    one_slot = query("settle").replace("pg_backend_pid()", "0")
    assert one_slot != query("settle")
    node = await joined(database)
    dispatch = PostgresDispatch(database, 5.0)
    tenants = [f"t{n}" for n in range(8)]
    executions = 0

    async def settle(part: list[Delivery]) -> int:
        """As `PostgresDispatch.settle` does, with the tenants in this order."""
        async with database.connection() as session:
            rows = await session.fetch(
                one_slot,
                [d.key.tenant_id for d in part], [d.key.id for d in part],
                [d.fence for d in part], [node], [0], [0], [0.0], [False], [0],
                [None] * len(part), [None] * len(part), ["w"], [None], [None], [None], [None],
                [False],
            )  # fmt: skip
        return len(rows)

    for turn in range(30):
        shift = turn % len(tenants)
        order = tenants[shift:] + tenants[:shift]
        parts = [order, order[::-1], order[1::2] + order[::2], order[::2] + order[1::2]]
        running = [await claimed(database, connection, node, part) for part in parts]
        found = await asyncio.gather(*(settle(part) for part in running))
        executions += sum(found)
    assert executions == 30 * 4 * 8
    assert await metered(connection.fetch) == await told(connection.fetch)
    assert await dispatch.settle([]) == []


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
        "INSERT INTO gnomon.usage (tenant_id, day, slot) VALUES ('a', $1, 1)", [(d,) for d in days]
    )
    await PostgresChores(database).forget(100)
    assert [row["day"] for row in await connection.fetch("SELECT day FROM gnomon.usage")] == days[
        :1
    ]
