"""`GET /activity`: what became of tasks over time, and what is scheduled."""

from datetime import datetime, timedelta
from typing import Any

from tests.conftest import serving
from tests.integration.api_calls import BODY, TASKS, Api, call
from tests.integration.identity import bearer, make_key, make_tenant
from tests.integration.support import Connection, database_now
from tests.integration.test_api_task_stats import _ID

from gnomon.access.principal import Role
from gnomon.model.insight.activity import ALL_TYPES, DELAYS, ActivityKey, Counts
from gnomon.model.tasks.priority import Lane
from gnomon.store.ports.insight.activity import ActivityRow
from gnomon.store.postgres.activity.activity import PostgresActivity
from gnomon.store.postgres.database import Database

ACTIVITY = "/api/v1/activity"
TENANTS = f"{ACTIVITY}/tenants"
UPCOMING = f"{TASKS}/upcoming"


def counts(number: int, *, failed: int = 0, place: int = 0) -> Counts:
    delays = [0] * DELAYS
    delays[place] = number
    return Counts(number, number, number - failed, failed, failed, number / 2, delays)


async def add(
    database: Database, at: datetime, tenant: str, kind: str, lane: Lane, each: Counts
) -> None:
    """As a process does: of the type, and of all types."""
    rows = [
        ActivityRow(ActivityKey(tenant, name, lane), at.replace(second=0, microsecond=0), each)
        for name in (kind, ALL_TYPES)
    ]
    await PostgresActivity(database).add(rows)


async def refused(api: Api, path: str, pointer: str, **query: Any) -> None:
    found = await call(api, "GET", path, 422, params=query)
    assert [error["pointer"] for error in found["errors"]] == [pointer]


async def test_nothing_happened_yet(api: Api) -> None:
    found = await call(api, "GET", ACTIVITY, 200)
    assert found["step"] == 60
    assert len(found["points"]) in (60, 61)
    assert found["task_types"] == []
    nobody = {"p50": None, "p95": None, "p99": None}
    assert (found["total"]["started"], found["total"]["start_delay"]) == (0, nobody)
    assert (await call(api, "GET", TENANTS, 200))["tenants"] == []


async def test_points_and_types_and_percentiles(
    api: Api, database: Database, connection: Connection
) -> None:
    now = await database_now(connection)
    before = now - timedelta(minutes=10)
    await add(database, now, "default", "mail", Lane.HIGH, counts(90))
    await add(database, now, "default", "mail", Lane.LOW, counts(10, failed=10, place=9))
    await add(database, before, "default", "report", Lane.LOW, counts(4, failed=1))
    unnamed = ActivityRow(ActivityKey("default", ALL_TYPES, Lane.LOW), before, counts(5))
    await PostgresActivity(database).add([unnamed])
    await add(database, now, "other", "secret", Lane.LOW, counts(1000))

    found = await call(api, "GET", ACTIVITY, 200)
    total = found["total"]
    assert (total["submitted"], total["started"], total["failed"]) == (109, 109, 11)
    assert total["run_seconds"] == 54.5
    assert 0 < total["start_delay"]["p50"] < 0.001
    assert 0.5 < total["start_delay"]["p99"] <= 1.0
    busy = [point["started"] for point in found["points"] if point["started"]]
    assert busy == [9, 100]
    named = [(each["task_type"], each["started"], each["failed"]) for each in found["task_types"]]
    assert named == [("mail", 100, 10), ("report", 4, 1), (None, 5, 0)]

    found = await call(api, "GET", ACTIVITY, 200, params={"task_type": "mail", "priority": "LOW"})
    assert (found["total"]["started"], found["total"]["failed"]) == (10, 10)
    found = await call(
        api, "GET", ACTIVITY, 200, params={"from": (now - timedelta(days=7)).isoformat()}
    )
    assert (found["step"], found["total"]["started"]) == (3600, 109)


async def test_only_ranges_that_can_be_answered_are(api: Api, connection: Connection) -> None:
    now = await database_now(connection)

    def ago(**spans: float) -> str:
        return (now - timedelta(**spans)).isoformat()

    await refused(api, ACTIVITY, "/step", **{"from": ago(days=3), "step": "60"})
    await refused(api, ACTIVITY, "/step", **{"from": ago(hours=3), "step": "90"})
    await refused(api, ACTIVITY, "/step", **{"from": ago(hours=3), "step": "5400"})
    await refused(api, ACTIVITY, "/step", **{"from": ago(days=300), "step": "3600"})
    await refused(api, ACTIVITY, "/step", step="59")
    await refused(api, TENANTS, "/step", **{"from": ago(hours=4), "step": "60"})
    found = await call(api, "GET", TENANTS, 200, params={"from": ago(hours=4)})
    assert found["step"] == 3600
    await refused(api, ACTIVITY, "/to", **{"from": ago(hours=1), "to": ago(hours=2)})
    await refused(api, ACTIVITY, "/to", **{"from": ago(hours=-1)})
    await refused(api, ACTIVITY, "/from", **{"from": "0001-01-01T00:00:00Z"})
    found = await call(api, "GET", ACTIVITY, 200, params={"from": ago(days=20_000)})
    assert len(found["points"]) <= 1_500
    await call(
        api, "GET", ACTIVITY, 200, params={"from": ago(hours=24), "to": "9999-12-31T23:59:59Z"}
    )


async def test_tenants_see_their_own_and_the_operator_sees_all(
    database: Database, database_dsn: str, connection: Connection
) -> None:
    now = await database_now(connection)
    for tenant, number in (("acme", 30), ("beta", 10)):
        await make_tenant(database, tenant)
        await add(database, now, tenant, "mail", Lane.LOW, counts(number))
    reader = bearer((await make_key(database, "acme", roles={Role.READ}))[1])
    operator = bearer((await make_key(database, None, roles={Role.OPERATOR}))[1])
    async with serving(database_dsn, auth_enabled=True) as api:
        found = await call(api, "GET", ACTIVITY, 200, headers=reader)
        assert found["total"]["started"] == 30
        await call(api, "GET", TENANTS, 403, headers=reader)
        found = await call(api, "GET", TENANTS, 200, headers=operator)
    assert found["total"]["started"] == 40
    assert sum(point["started"] for point in found["points"]) == 40
    shares = [(t["tenant_id"], t["weight"], t["run_seconds"]) for t in found["tenants"]]
    assert shares == [("acme", 1.0, 15.0), ("beta", 1.0, 5.0)]


async def test_many_tenants_over_a_week_have_few_points_each(
    api: Api, database: Database, connection: Connection
) -> None:
    now = await database_now(connection)
    for hours in (1, 30, 150):
        await add(database, now - timedelta(hours=hours), "default", "t", Lane.MEDIUM, counts(4))
    week = {"from": (now - timedelta(days=7)).isoformat(), "to": now.isoformat()}
    found = await call(api, "GET", TENANTS, 200, params=week)
    assert (found["step"], found["total"]["started"]) == (3 * 3600, 12)
    assert len(found["points"]) <= 57
    (own,) = found["tenants"]
    assert [point["started"] for point in own["points"] if point["started"]] == [4, 4, 4]
    found = await call(api, "GET", TENANTS, 200, params=week | {"step": "3600"})
    assert (found["step"], found["total"]["started"]) == (3600, 12)


async def test_what_is_scheduled_is_counted_by_the_hour(api: Api, connection: Connection) -> None:
    now = await database_now(connection)
    hour = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=2)
    for minutes in (5, 6, 70):
        at = hour + timedelta(minutes=minutes)
        await call(api, "POST", TASKS, 202, BODY | {"execute_at": at.isoformat()})
    hours = (await call(api, "GET", UPCOMING, 200))["hours"]
    assert len(hours) == 24
    assert [each["count"] for each in hours[2:4]] == [2, 1]
    assert [each["estimate"] for each in hours[2:4]] == [2, 1]
    assert sum(each["count"] for each in hours) == 3
    assert not any(each["capped"] for each in hours)

    await connection.execute(
        f"""
        INSERT INTO gnomon.task (tenant_id, id, lane, due_at, task_type, target)
        SELECT 'default', {_ID}, 2, $1::timestamptz + n * interval '0.12 second',
            'many', '{{"type": "python", "function": "f"}}'
        FROM generate_series(0, 29999) AS n
        """,
        hour + timedelta(hours=4),
    )
    hours = (await call(api, "GET", UPCOMING, 200))["hours"]
    many = hours[6]
    assert many["capped"]
    assert many["count"] < 2_000
    assert 29_500 < many["estimate"] < 30_500
    assert not hours[7]["capped"]
