"""What a cron job runs besides its schedule, and what is told of its runs."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.integration.api_calls import Api, call, put
from tests.integration.cron_calls import JOBS, ago, created, runs_of

if TYPE_CHECKING:
    import asyncpg

Connection: TypeAlias = "asyncpg.Connection[Any]"


async def test_a_trigger_runs_it_once_for_each_key(api: Api) -> None:
    job = await created(api, payload_template={"at": "{{ fire_time | unix }}"})
    path = f"{JOBS}/report/trigger"
    key = {"Idempotency-Key": "k"}
    run = await call(api, "POST", path, 202, headers=key)
    assert (run["kind"], run["status"], run["cron_job_id"]) == (
        "manual", "READY", job["cron_job_id"]
    )  # fmt: skip
    async with api.post(path, headers=key) as answer:
        assert answer.headers["Idempotency-Replayed"] == "true"
        assert await answer.json() == run
    assert [each["run_id"] for each in await runs_of(api, "report")] == [run["run_id"]]
    task = await call(api, "GET", f"/api/v1/tasks/{run['run_id']}", 200)
    assert task["cron_job_id"] == job["cron_job_id"]
    assert task["payload"]["at"].isdecimal()
    page = await call(api, "GET", f"/api/v1/tasks?cron_job_id={job['cron_job_id']}", 200)
    assert [task["task_id"] for task in page["tasks"]] == [run["run_id"]]


async def test_a_trigger_does_not_overlap_where_that_is_forbidden(
    api: Api, connection: Connection
) -> None:
    await created(api)
    run = await call(api, "POST", f"{JOBS}/report/trigger", 202)
    await put(connection, run["run_id"], "state = 1, fence = 1, attempt = 1")
    await connection.execute(
        "UPDATE gnomon.cron_job SET active_task_id = $1::text::uuid", run["run_id"]
    )
    problem = await call(api, "POST", f"{JOBS}/report/trigger", 409)
    assert run["run_id"] in problem["detail"]
    assert "overlap_policy" in problem["detail"]
    assert [each["status"] for each in await runs_of(api, "report")] == ["RUNNING"]
    job = await call(api, "GET", f"{JOBS}/report", 200)
    assert job["active_task_id"] == run["run_id"]


async def test_a_trigger_of_a_job_that_allows_overlap(api: Api) -> None:
    await created(api, overlap_policy="allow")
    ids = {(await call(api, "POST", f"{JOBS}/report/trigger", 202))["run_id"] for _ in range(3)}
    assert len(ids) == 3
    first = await call(api, "GET", f"{JOBS}/report/runs", 200, params={"limit": "2"})
    cursor = {"limit": "2", "cursor": first["next_cursor"]}
    rest = await call(api, "GET", f"{JOBS}/report/runs", 200, params=cursor)
    runs = first["runs"] + rest["runs"]
    assert {run["run_id"] for run in runs} == ids
    assert [run["fire_at"] for run in runs] == sorted((r["fire_at"] for r in runs), reverse=True)
    assert rest["next_cursor"] is None


async def test_a_backfill_is_looked_at_then_done_then_known(api: Api) -> None:
    await created(api, cron_expression="30 4 * * *", timezone="Asia/Tokyo")
    path = f"{JOBS}/report/backfill"
    body = {"from": ago(3).isoformat(), "to": (ago(0) - timedelta(seconds=1)).isoformat()}
    fires = [(ago(n) + timedelta(hours=19, minutes=30)) for n in (3, 2, 1)]
    planned = [
        {
            "fire_at": f"{fire:%Y-%m-%dT%H:%M:%SZ}",
            "local": f"{fire + timedelta(hours=9):%Y-%m-%dT%H:%M:%S}+09:00",
        }
        for fire in fires
    ]
    key = {"Idempotency-Key": "k"}
    foreseen = await call(api, "POST", path, 200, body | {"dry_run": True}, headers=key)
    assert foreseen == {"dry_run": True, "planned": planned, "existing": []}
    assert await runs_of(api, "report") == []
    done = {"dry_run": False, "planned": planned, "existing": []}
    for _ in range(2):  # the same request
        assert await call(api, "POST", path, 202, body, headers=key) == done
    again = await call(api, "POST", path, 202, body)
    assert again == {"dry_run": False, "planned": [], "existing": planned}
    runs = await runs_of(api, "report")
    assert [run["fire_at"] for run in runs] == [fire["fire_at"] for fire in reversed(planned)]
    assert {run["kind"] for run in runs} == {"backfill"}


async def test_a_backfill_of_long_ago(api: Api) -> None:
    await created(api, cron_expression="0 0 1 1 *")
    body = {"from": "2019-06-01T00:00:00Z", "to": "2022-06-01T00:00:00Z"}
    done = await call(api, "POST", f"{JOBS}/report/backfill", 202, body)
    assert [fire["fire_at"][:4] for fire in done["planned"]] == ["2020", "2021", "2022"]
    assert len(await runs_of(api, "report")) == 3


async def test_a_backfill_has_bounds(api: Api) -> None:
    await created(api, cron_expression="30 4 * * *")
    path = f"{JOBS}/report/backfill"
    past = {"from": ago(3).isoformat(), "to": ago(0).isoformat()}
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    for body, pointer, words in (
        (past | {"limit": 2}, "/to", "more than 2"),
        (past | {"limit": 10_001}, "/limit", "10000"),
        (past | {"limit": 0}, "/limit", "1"),
        (past | {"to": tomorrow}, "/to", "future"),
        ({"from": past["to"], "to": past["from"]}, "/to", "earlier"),
        (past | {"from": "2026-01-01T00:00:00"}, "/from", "zone"),
        (past | {"until": "x"}, "/until", "unknown"),
        ({"from": past["from"]}, "", "to"),
    ):
        problem = await call(api, "POST", path, 422, body)
        assert problem["errors"][0]["pointer"] == pointer, problem
        assert words in problem["detail"]
    assert await runs_of(api, "report") == []


async def test_runs_are_filtered_by_status(api: Api, connection: Connection) -> None:
    job = await created(api, overlap_policy="allow")
    path = f"{JOBS}/report/runs"
    runs = [(await call(api, "POST", f"{JOBS}/report/trigger", 202))["run_id"] for _ in range(5)]
    await put(connection, runs[1], "state = 1, fence = 1, attempt = 1")
    await put(connection, runs[2], "state = 4")
    await call(api, "POST", f"/api/v1/tasks/{runs[3]}/cancel", 200)
    await call(api, "DELETE", f"/api/v1/tasks/{runs[4]}", 204)
    for day, reason in enumerate((0, 1, 2, 3)):
        await connection.execute(
            "INSERT INTO gnomon.occurrence (cron_job_id, fire_at, tenant_id, skipped) "
            "VALUES ($1::text::uuid, $2, 'default', $3)",
            job["cron_job_id"],
            ago(day + 1),
            reason,
        )

    async def found(status: str, **more: str) -> list[str | None]:
        page = await call(api, "GET", path, 200, params={"status": status, **more})
        assert page["next_cursor"] is None
        assert {run["status"] for run in page["runs"]} <= {status}
        return [run["run_id"] for run in page["runs"]]

    assert await found("READY") == [runs[0]]
    assert await found("RUNNING") == [runs[1]]
    assert await found("DEAD_LETTERED") == [runs[2]]
    assert await found("CANCELLED") == [runs[3]]
    assert await found("COMPLETED") == []
    assert await found("MISSED") == [None]
    assert await found("SKIPPED") == [None] * 3
    page = await call(api, "GET", path, 200, params={"status": "SKIPPED", "limit": "2"})
    assert len(page["runs"]) == 2
    page = await call(
        api, "GET", path, 200, params={"status": "SKIPPED", "cursor": page["next_cursor"]}
    )
    assert (len(page["runs"]), page["next_cursor"]) == (1, None)
    problem = await call(api, "GET", path, 422, params={"status": "LATE"})
    assert problem["errors"][0]["pointer"] == "/status"


async def test_a_page_of_runs_examines_so_many(api: Api, connection: Connection) -> None:
    job = await created(api)
    await connection.execute(
        "INSERT INTO gnomon.occurrence (cron_job_id, fire_at, tenant_id, skipped) "
        "SELECT $1::text::uuid, $2::timestamptz - make_interval(mins => n), 'default', "
        "CASE WHEN n = 3500 THEN 1 ELSE 0 END FROM generate_series(1, 4000) AS n",
        job["cron_job_id"],
        ago(1),
    )
    params, sizes = {"status": "SKIPPED"}, []
    while True:
        page = await call(api, "GET", f"{JOBS}/report/runs", 200, params=params)
        sizes.append(len(page["runs"]))
        if page["next_cursor"] is None:
            break
        params = {"status": "SKIPPED", "cursor": page["next_cursor"]}
    assert sizes == [0, 1, 0]
