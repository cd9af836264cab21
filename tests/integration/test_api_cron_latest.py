"""The last fire, status and success of cron jobs, who paused them, and edits that meet."""

from typing import TYPE_CHECKING, Any, TypeAlias

from tests.integration.api_calls import Api, call
from tests.integration.cron_calls import JOBS, created
from tests.integration.identity import bearer, make_key
from tests.integration.test_dashboard import guarded

from gnomon.store.ports.work.cron import SUCCESS_LOOKED_FOR
from gnomon.store.postgres.database import Database

if TYPE_CHECKING:
    import asyncpg

Connection: TypeAlias = "asyncpg.Connection[Any]"
__all__ = ["guarded"]

# Fires at so many minutes ago; those before $3 succeeded, and the others died.
_HISTORY = """
WITH made AS (
    SELECT n, gnomon.now() - make_interval(mins => n) AS at,
        (lpad(to_hex((extract(epoch FROM gnomon.now()) * 1000)::bigint - n * 60000), 12, '0')
         || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 5, 15))::uuid AS id
    FROM generate_series(1, $2) AS n
), entered AS (
    INSERT INTO gnomon.occurrence (cron_job_id, fire_at, tenant_id, task_id)
    SELECT $1::text::uuid, at, 'default', id FROM made
), succeeded AS (
    INSERT INTO gnomon.task_archive (
        tenant_id, id, lane, state, delivery, execute_at, finished_at, fence, attempt,
        timeout_seconds, task_type, target, cron_job_id
    )
    SELECT 'default', id, 2, 10, 0, at, at, 1, 1, 30, 'x', '{}', $1::text::uuid
    FROM made WHERE n >= $3
)
INSERT INTO gnomon.task (
    tenant_id, id, task_type, target, execute_at, due_at, state, attempt, cron_job_id
)
SELECT 'default', id, 'x', '{}', at, at, 4, 1, $1::text::uuid FROM made WHERE n < $3
"""


async def listed(api: Api) -> dict[str, Any]:
    (job,) = (await call(api, "GET", JOBS, 200))["cron_jobs"]
    assert job == await call(api, "GET", f"{JOBS}/report", 200)
    return dict(job)


def latest(job: dict[str, Any]) -> tuple[Any, ...]:
    return job["last_fire_at"], job["last_status"], job["last_success_at"]


async def test_a_job_shows_its_last_fire_status_and_success(
    api: Api, connection: Connection
) -> None:
    made = await created(api)
    assert latest(made) == latest(await listed(api)) == (None, None, None)
    await connection.execute(_HISTORY, made["cron_job_id"], 5, 3)
    job = await listed(api)
    runs = (await call(api, "GET", f"{JOBS}/report/runs", 200))["runs"]
    assert job["last_fire_at"] == runs[0]["fire_at"]
    assert job["last_status"] == runs[0]["status"] == "DEAD_LETTERED"
    assert job["last_success_at"] == runs[2]["finished_at"] is not None
    # A run that is planned for later is no fire yet.
    await connection.execute(
        "INSERT INTO gnomon.occurrence (cron_job_id, fire_at, tenant_id) "
        "VALUES ($1::text::uuid, gnomon.now() + interval '5 seconds', 'default')",
        made["cron_job_id"],
    )
    assert latest(await listed(api)) == latest(job)
    # Whoever changes the job is told as well.
    for action in ("pause", "resume"):
        changed = await call(api, "POST", f"{JOBS}/report/{action}", 200)
        assert latest(changed) == latest(job)
    patched = await call(api, "PATCH", f"{JOBS}/report", 200, {"timezone": "Europe/Berlin"})
    assert latest(patched) == latest(job)


async def test_a_success_is_looked_for_among_the_latest_fires(
    api: Api, connection: Connection
) -> None:
    job_id = (await created(api))["cron_job_id"]
    await connection.execute(_HISTORY, job_id, SUCCESS_LOOKED_FOR + 10, SUCCESS_LOOKED_FOR)
    assert (await listed(api))["last_success_at"] is not None
    await connection.execute(
        "DELETE FROM gnomon.task_archive WHERE id = "
        "(SELECT id FROM gnomon.task_archive ORDER BY id DESC LIMIT 1)"
    )
    job = await listed(api)
    assert (job["last_status"], job["last_success_at"]) == ("DEAD_LETTERED", None)


async def test_a_pause_tells_who_paused(guarded: Api, database: Database) -> None:
    _, key = await make_key(database, name="ann")
    as_ann = bearer(key)
    job = {"name": "report", "task_type": "x", "interval_seconds": 3600}
    await call(guarded, "POST", JOBS, 201, job, headers=as_ann)
    paused = await call(guarded, "POST", f"{JOBS}/report/pause", 200, headers=as_ann)
    assert paused["paused_by"] == "ann"
    resumed = await call(guarded, "POST", f"{JOBS}/report/resume", 200, headers=as_ann)
    assert resumed["paused_by"] is None
    change = {"paused": True, "pause_reason": "the bank"}
    paused = await call(guarded, "PATCH", f"{JOBS}/report", 200, change, headers=as_ann)
    assert (paused["paused_by"], paused["pause_reason"]) == ("ann", "the bank")


async def test_an_edit_of_a_definition_that_has_changed_is_refused(api: Api) -> None:
    job = await created(api)
    seen = {"definition_version": job["definition_version"]}
    # What leaves the definition as it is does not count.
    await call(api, "POST", f"{JOBS}/report/trigger", 202)
    await call(api, "POST", f"{JOBS}/report/pause", 200)
    same = await call(api, "PATCH", f"{JOBS}/report", 200, {"timezone": "UTC"} | seen)
    assert same["definition_version"] == job["definition_version"]
    changed = await call(api, "PATCH", f"{JOBS}/report", 200, {"timezone": "Asia/Tokyo"} | seen)
    assert changed["definition_version"] == job["definition_version"] + 1
    problem = await call(api, "PATCH", f"{JOBS}/report", 409, {"timezone": "Asia/Seoul"} | seen)
    assert "was changed meanwhile" in problem["detail"]
    assert (await call(api, "GET", f"{JOBS}/report", 200))["timezone"] == "Asia/Tokyo"
