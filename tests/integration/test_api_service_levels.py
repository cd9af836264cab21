"""`GET /service-levels` and `gnomon levels`: what was kept and missed, by the week."""

from datetime import date, timedelta
from uuid import UUID

from tests.conftest import serving
from tests.integration.api_calls import BODY, TASKS, Api, call
from tests.integration.identity import bearer, make_key, make_tenant
from tests.integration.support import Connection, database_now

from gnomon.access.principal import Role
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.levels.level_store import week_of

LEVELS = "/api/v1/service-levels"
NO_JOB = UUID(int=0)


async def enter(
    connection: Connection, week: date, task_type: str, *counts: int, tenant: str = "default"
) -> None:
    await connection.execute(
        "INSERT INTO gnomon.service_level VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        tenant,
        week,
        task_type,
        NO_JOB,
        *counts,
    )


async def test_weeks_are_read_as_json_and_csv(api: Api, connection: Connection) -> None:
    week = week_of(await database_now(connection))
    await enter(connection, week, "mail", 2, 1, 0, 0)
    await enter(connection, week - timedelta(weeks=1), "=mail", 999_999, 1, 3, 0)
    await enter(connection, week - timedelta(weeks=8), "mail", 1, 0, 0, 0)
    await enter(connection, week, "mail", 5, 5, 5, 5, tenant="other")
    found = await call(api, "GET", LEVELS, 200)
    assert (found["to"], found["truncated"]) == (str(week), False)
    newest, before = found["service_levels"]
    assert (newest["task_type"], newest["cron_job"]) == ("mail", None)
    assert newest["start"] == {"kept": 2, "missed": 1, "share": 0.6666}
    assert newest["run"] == {"kept": 0, "missed": 0, "share": None}
    assert before["start"]["share"] == 0.9999  # and not 1: one was missed
    only = await call(api, "GET", LEVELS, 200, params={"weeks": 20, "task_type": "mail"})
    assert len(only["service_levels"]) == 2
    for query, headers in (({"format": "csv"}, {}), ({}, {"Accept": "text/csv"})):
        async with api.get(LEVELS, params=query, headers=headers) as response:
            assert response.content_type == "text/csv"
            lines = (await response.text()).splitlines()
        assert lines[0].startswith("week,task_type,cron_job_id,cron_job,start_kept")
        assert lines[1] == f"{week},mail,,,2,1,0.6666,0,0,"
        assert lines[2].split(",")[1] == "'=mail"


async def test_what_cannot_be_asked_is_refused(api: Api) -> None:
    for query in ({"weeks": 0}, {"weeks": 107}, {"cron_job_id": "x"}, {"format": "xml"}):
        await call(api, "GET", LEVELS, 422, params=query)


async def test_levels_are_refused_where_they_mean_nothing(api: Api) -> None:
    for field in ("sla_seconds", "warn_after_seconds"):
        for value in (0, -1, "5s", 1e300):
            found = await call(api, "POST", TASKS, 422, json=BODY | {field: value})
            assert found["errors"][0]["pointer"] == f"/{field}"


async def test_a_type_gives_its_levels_to_tasks_that_say_nothing(api: Api) -> None:
    defaults = {"sla_seconds": 5, "warn_after_seconds": 60}
    body = {"schema": True, "defaults": defaults}
    await call(api, "PUT", "/api/v1/task-types/levelled", 201, json=body)
    task = {**BODY, "task_type": "levelled"}
    plain = await call(api, "POST", TASKS, 202, json=task)
    assert (plain["sla_seconds"], plain["warn_after_seconds"]) == (5.0, 60.0)
    other = await call(api, "POST", TASKS, 202, json=task | {"sla_seconds": None})
    assert (other["sla_seconds"], other["warn_after_seconds"]) == (None, 60.0)


async def test_nobody_reads_the_levels_of_another_tenant(
    database: Database, database_dsn: str, connection: Connection
) -> None:
    week = week_of(await database_now(connection))
    await make_tenant(database, "mine")
    await make_tenant(database, "other")
    await enter(connection, week, "secret", 1, 1, 1, 1, tenant="other")
    _, key = await make_key(database, "mine", roles={Role.READ})
    async with serving(database_dsn, auth_enabled=True) as api:
        found = await call(api, "GET", LEVELS, 200, headers=bearer(key))
        assert found["service_levels"] == []
