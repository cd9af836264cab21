"""`/cron-jobs` over real sockets, on a real PostgreSQL: what is promised about each request."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from tests.integration.api_calls import Api, call, put

from gnomon.client.client import Client
from gnomon.client.errors import ApiProblem

if TYPE_CHECKING:
    import asyncpg

Connection: TypeAlias = "asyncpg.Connection[Any]"

JOBS = "/api/v1/cron-jobs"
NOBODY = "01890000-0000-7000-8000-000000000000"
# Never due while a test runs.
YEARLY = "0 0 29 2 *"
JOB: dict[str, Any] = {
    "name": "report",
    "task_type": "mail",
    "callback_url": "http://127.0.0.1:9/hook",
    "cron_expression": YEARLY,
}
DAILY = JOB | {"cron_expression": "30 4 * * *"}
FIELDS = {
    "cron_job_id", "name", "status", "description", "cron_expression", "interval_seconds",
    "interval_from", "timezone", "dst", "task_type", "target", "payload_template",
    "overlap_policy", "missed_run_policy", "missed_after_seconds", "backfill_limit",
    "backfill_window_seconds", "start_date", "end_date", "max_runs", "jitter_seconds",
    "sla_seconds", "priority", "retry_policy", "timeout_seconds", "tags", "source",
    "next_fire_at", "runs", "active_task_id", "paused_at", "pause_reason", "created_at",
    "updated_at", "created_by",
}  # fmt: skip
ACTIONS = [
    ("GET", "", None),
    ("PATCH", "", {"max_runs": 1}),
    ("DELETE", "", None),
    ("POST", "/pause", {}),
    ("POST", "/resume", {}),
    ("POST", "/trigger", {}),
    ("POST", "/backfill", {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}),
    ("GET", "/runs", None),
]


async def created(api: Api, **fields: Any) -> Any:
    return await call(api, "POST", JOBS, 201, JOB | fields)


async def runs_of(api: Api, ref: str) -> list[Any]:
    return list((await call(api, "GET", f"{JOBS}/{ref}/runs", 200))["runs"])


def ago(days: int) -> datetime:
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - timedelta(days=days)


async def test_a_job_is_answered_as_it_will_be_read(api: Api) -> None:
    body = {
        "timezone": "Europe/Berlin",
        "dst": {"fold": "both"},
        "payload_template": {"day": "{{ fire_time | %Y-%m-%d }}", "n": 1.50},
        "overlap_policy": "queue",
        "missed_run_policy": "backfill",
        "backfill_limit": 5,
        "start_date": "2026-01-01T00:00:00+01:00",
        "max_runs": 3,
        "priority": "HIGH",
        "tags": ["a", "b", "a"],
        "source": "sync:x",
    }
    job = await created(api, **body)
    assert set(job) == FIELDS
    assert (job["status"], job["runs"], job["active_task_id"]) == ("active", 0, None)
    assert job["dst"] == {"gap": "fire_after", "fold": "both"}
    assert job["start_date"] == "2025-12-31T23:00:00Z"
    assert (job["priority"], job["tags"]) == ("HIGH", ["a", "b"])
    assert job["payload_template"] == body["payload_template"]
    assert (job["missed_after_seconds"], job["retry_policy"]["max_retries"]) == (10.0, 3)
    assert job["description"].endswith("(Europe/Berlin)")
    assert job["next_fire_at"].endswith("-28T23:00:00Z")
    for ref in (job["cron_job_id"], "report"):
        assert await call(api, "GET", f"{JOBS}/{ref}", 200) == job


async def test_an_interval(api: Api) -> None:
    job = await created(
        api,
        cron_expression=None,
        interval_seconds=86400,
        interval_from="04:07",
        timezone="Asia/Tokyo",
    )
    assert (job["cron_expression"], job["interval_seconds"]) == (None, 86400)
    assert job["next_fire_at"].endswith("T19:07:00Z")
    assert job["description"] == "Every 24 hours, from 04:07 (Asia/Tokyo)"


async def test_a_name_is_taken_once(api: Api) -> None:
    await created(api)
    problem = await call(api, "POST", JOBS, 409, JOB)
    assert "'report'" in problem["detail"]
    assert "PUT" in problem["detail"]
    await created(api, name="Report")


async def test_a_name_may_be_almost_anything(api: Api, connection: Connection) -> None:
    for name in ("täglich um 9", "a b%c?d#e", "x" * 200, "プレビュー", "100%25", "a+b"):
        job = await created(api, name=name)
        async with Client(str(api._base_url)) as client:
            assert (await client.get_cron_job(name))["cron_job_id"] == job["cron_job_id"]
    for name in ("preview", "..", "a/b", " a", NOBODY, "", "x" * 201, "a\0b", "a\nb"):
        problem = await call(api, "POST", JOBS, 422, JOB | {"name": name})
        assert problem["errors"][0]["pointer"] == "/name"
    assert await connection.fetchval("SELECT count(*) FROM gnomon.cron_job") == 6


async def test_pages_and_filters(api: Api) -> None:
    for n in range(7):
        await created(
            api,
            name=f"Job {n}",
            tags=["odd" if n % 2 else "even"],
            source="s1" if n < 3 else None,
            cron_expression="30 4 * * *" if n == 5 else YEARLY,
        )
    await call(api, "POST", f"{JOBS}/Job%200/pause", 200)

    async def names(**query: str) -> list[str]:
        page = await call(api, "GET", JOBS, 200, params=query)
        return [job["name"][-1] for job in page["cron_jobs"]]

    assert await names() == list("6543210")
    assert await names(tag="odd") == list("531")
    assert await names(source="s1") == list("210")
    assert await names(paused="true") == ["0"]
    assert await names(paused="false", source="s1") == list("21")
    assert await names(name="jOB 3") == ["3"]
    assert await names(name="%") == []
    soon = datetime.now(UTC) + timedelta(days=2)
    assert await names(next_fire_before=soon.isoformat()) == ["5"]

    first = await call(api, "GET", JOBS, 200, params={"limit": "4"})
    rest = await call(api, "GET", JOBS, 200, params={"limit": "4", "cursor": first["next_cursor"]})
    assert [job["name"][-1] for job in first["cron_jobs"] + rest["cron_jobs"]] == list("6543210")
    assert rest["next_cursor"] is None


@pytest.mark.parametrize(
    ("path", "pointer"),
    [
        ("?limit=501", "/limit"),
        ("?paused=perhaps", "/paused"),
        ("?next_fire_before=2026-01-01T00:00:00", "/next_fire_before"),
        ("?cursor=!", "/cursor"),
        ("?tags=x", "/tags"),
        ("/report?x=1", "/x"),
        ("/report/runs?cursor=AAAA", "/cursor"),
        ("/report/runs?limit=0", "/limit"),
    ],
)
async def test_a_query_that_cannot_be_used(api: Api, path: str, pointer: str) -> None:
    problem = await call(api, "GET", f"{JOBS}{path}", 422)
    assert problem["errors"][0]["pointer"] == pointer


async def test_unknown_and_foreign_jobs_are_the_same(api: Api, connection: Connection) -> None:
    job = await created(api)
    await connection.execute("UPDATE gnomon.cron_job SET tenant_id = 'other'")
    for method, action, body in ACTIONS:
        details = set()
        for ref in (job["cron_job_id"], "report", NOBODY, "nobody", "%00", "%FF", "x" * 300):
            problem = await call(api, method, f"{JOBS}/{ref}{action}", 404, body)
            details.add(problem["detail"].partition("cron job")[0])
            assert problem["type"] == "urn:gnomon:problem:not-found"
        assert len(details) == 1
    assert (await call(api, "GET", JOBS, 200))["cron_jobs"] == []
    await created(api)


async def test_patch(api: Api) -> None:
    job = await created(api, payload_template=[1], tags=["a"], max_runs=3)
    path = f"{JOBS}/{job['cron_job_id']}"
    assert await call(api, "PATCH", path, 200, {}) == job
    changes: dict[str, Any] = {
        "payload_template": None,
        "tags": [],
        "max_runs": None,
        "priority": "LOW",
    }
    changed = await call(api, "PATCH", path, 200, changes)
    updated = changed["updated_at"]
    assert updated > job["updated_at"]
    assert changed == job | changes | {"updated_at": updated}
    changed = await call(api, "PATCH", path, 200, {"interval_seconds": 86400})
    assert (changed["cron_expression"], changed["interval_seconds"]) == (None, 86400)
    changed = await call(api, "PATCH", path, 200, {"cron_expression": YEARLY})
    assert (changed["cron_expression"], changed["interval_seconds"]) == (YEARLY, None)
    assert await call(api, "GET", path, 200) == changed


async def test_rename(api: Api) -> None:
    job = await created(api)
    await created(api, name="other")
    assert (await call(api, "PATCH", f"{JOBS}/report", 200, {"name": "new"}))["name"] == "new"
    await call(api, "GET", f"{JOBS}/report", 404)
    assert (await call(api, "GET", f"{JOBS}/new", 200))["cron_job_id"] == job["cron_job_id"]
    await call(api, "PATCH", f"{JOBS}/new", 409, {"name": "other"})
    both = {"name": "paused", "paused": True, "pause_reason": "moved"}
    renamed = await call(api, "PATCH", f"{JOBS}/new", 200, both)
    assert (renamed["name"], renamed["pause_reason"]) == ("paused", "moved")


async def test_a_patch_is_all_or_nothing(api: Api) -> None:
    job = await created(api)
    body = {"max_runs": 9, "paused": True, "timezone": "Europe/Berln"}
    await call(api, "PATCH", f"{JOBS}/report", 422, body)
    assert await call(api, "GET", f"{JOBS}/report", 200) == job


async def test_pause_and_resume(api: Api) -> None:
    job = await created(api)
    path = f"{JOBS}/report"
    paused = await call(api, "POST", f"{path}/pause", 200, {"reason": "invoices are wrong"})
    assert (paused["status"], paused["pause_reason"]) == ("paused", "invoices are wrong")
    assert paused["paused_at"].endswith("Z")
    assert paused["next_fire_at"] is None
    again = await call(api, "POST", f"{path}/pause", 200, {"reason": "still"})
    assert (again["pause_reason"], again["paused_at"]) == ("still", paused["paused_at"])
    for _ in range(2):
        resumed = await call(api, "POST", f"{path}/resume", 200)
        assert resumed | {"updated_at": job["updated_at"]} == job
    patched = await call(api, "PATCH", path, 200, {"paused": True, "pause_reason": "x"})
    assert (patched["status"], patched["pause_reason"]) == ("paused", "x")
    assert (await call(api, "PATCH", path, 200, {"paused": False}))["status"] == "active"
    for body in ({"reason": "a\0b"}, {"reason": "x" * 1001}, {"reason": 1}):
        problem = await call(api, "POST", f"{path}/pause", 422, body)
        assert problem["errors"][0]["pointer"] == "/reason"


async def test_delete(api: Api) -> None:
    await created(api)
    await call(api, "DELETE", f"{JOBS}/report", 204)
    await call(api, "DELETE", f"{JOBS}/report", 404)
    await created(api)


async def test_put_makes_it_so(api: Api, connection: Connection) -> None:
    path = f"{JOBS}/report"
    body = {name: value for name, value in JOB.items() if name != "name"}
    foreseen = await call(api, "PUT", path, 200, body, params={"dry_run": "true"})
    assert foreseen == {"change": "created", "fields": {}, "cron_job": None}
    assert await connection.fetchval("SELECT count(*) FROM gnomon.cron_job") == 0
    first = await call(api, "PUT", path, 201, body)
    assert (first["change"], first["fields"]) == ("created", {})
    job = first["cron_job"]
    assert job == await call(api, "GET", path, 200)

    same = {"change": "unchanged", "fields": {}, "cron_job": job}
    written_out = JOB | {"timezone": "UTC", "priority": "MEDIUM", "tags": [], "max_runs": None}
    for again in (body, JOB, written_out):
        assert await call(api, "PUT", path, 200, again) == same
        assert await call(api, "PUT", path, 200, again, params={"dry_run": "true"}) == same

    other = JOB | {"timezone": "Asia/Tokyo", "payload_template": {"a": [1, 2]}}
    fields = {
        "timezone": {"from": "UTC", "to": "Asia/Tokyo"},
        "payload_template": {"from": None, "to": {"a": [1, 2]}},
    }
    foreseen = await call(api, "PUT", path, 200, other, params={"dry_run": "true"})
    assert foreseen == {"change": "changed", "fields": fields, "cron_job": job}
    done = await call(api, "PUT", path, 200, other)
    assert (done["change"], done["fields"]) == ("changed", fields)
    assert done["cron_job"]["cron_job_id"] == job["cron_job_id"]
    assert done["cron_job"] == await call(api, "GET", path, 200)


async def test_put_leaves_a_pause_alone(api: Api) -> None:
    await created(api)
    await call(api, "POST", f"{JOBS}/report/pause", 200)
    done = await call(api, "PUT", f"{JOBS}/report", 200, JOB | {"max_runs": 3})
    assert (done["change"], done["cron_job"]["status"]) == ("changed", "paused")


async def test_put_has_one_name(api: Api) -> None:
    problem = await call(api, "PUT", f"{JOBS}/other", 422, JOB)
    assert problem["errors"][0]["pointer"] == "/name"
    for name in (NOBODY, "..%20%00", "x" * 201):
        body = {key: value for key, value in JOB.items() if key != "name"}
        problem = await call(api, "PUT", f"{JOBS}/{name}", 422, body)
        assert problem["errors"][0]["pointer"] == "/name"


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


async def test_preview(api: Api) -> None:
    body = {"cron_expression": "0 9 * * MON-FRI", "timezone": "America/New_York"}
    found = await call(
        api, "POST", f"{JOBS}/preview", 200, body | {"after": "2026-03-06T00:00:00Z", "count": 2}
    )
    assert found["fires"] == [
        {"fire_at": "2026-03-06T14:00:00Z", "local": "2026-03-06T09:00:00-05:00", "note": None},
        {"fire_at": "2026-03-09T13:00:00Z", "local": "2026-03-09T09:00:00-04:00", "note": None},
    ]
    assert found["description"].endswith("(America/New_York)")
    assert len((await call(api, "POST", f"{JOBS}/preview", 200, body))["fires"]) == 10
    thousand = await call(api, "POST", f"{JOBS}/preview", 200, body | {"count": 1000})
    fires = [fire["fire_at"] for fire in thousand["fires"]]
    assert len(set(fires)) == 1000
    assert fires == sorted(fires)
    bounded = body | {
        "after": "2026-01-01T00:00:00Z",
        "start_date": "2026-03-06T20:00:00Z",
        "end_date": "2026-03-09T13:00:00Z",
    }
    (fire,) = (await call(api, "POST", f"{JOBS}/preview", 200, bounded))["fires"]
    assert fire["fire_at"] == "2026-03-09T13:00:00Z"


@pytest.mark.parametrize(
    ("expression", "after", "dst", "fires", "words"),
    [
        ("30 2 * * *", "2026-03-08", {}, ["08T07:00:00", "09T06:30:00"], "02:30"),
        ("30 2 * * *", "2026-03-08", {"gap": "skip"}, ["09T06:30:00", "10T06:30:00"], "02:30"),
        ("30 1 * * *", "2026-11-01", {}, ["01T05:30:00", "02T06:30:00"], "twice"),
        ("30 1 * * *", "2026-11-01", {"fold": "second"}, ["01T06:30:00", "02T06:30:00"], "twice"),
        ("30 1 * * *", "2026-11-01", {"fold": "both"}, ["01T05:30:00", "01T06:30:00"], "twice"),
    ],
)
async def test_a_preview_tells_what_clock_changes_do(
    api: Api, expression: str, after: str, dst: Any, fires: list[str], words: str
) -> None:
    body = {
        "cron_expression": expression,
        "timezone": "America/New_York",
        "dst": dst,
        "after": f"{after}T00:00:00-05:00",
        "count": 2,
    }
    found = (await call(api, "POST", f"{JOBS}/preview", 200, body))["fires"]
    assert [fire["fire_at"] for fire in found] == [f"{after[:8]}{fire}Z" for fire in fires]
    assert words in found[0]["note"]


async def test_a_preview_draws_from_the_job_it_is_about(api: Api) -> None:
    job = await created(api, cron_expression="H H * * *")
    body = {"cron_expression": "H H * * *", "count": 1, "cron_job_id": job["cron_job_id"]}
    found = await call(api, "POST", f"{JOBS}/preview", 200, body)
    assert found["fires"][0]["fire_at"] == job["next_fire_at"]


SCHEDULES: list[tuple[dict[str, Any], str, str]] = [
    ({"cron_expression": "61 * * * *"}, "/cron_expression", "59"),
    ({"cron_expression": "* * *"}, "/cron_expression", "five"),
    ({"cron_expression": "@every 5m"}, "/cron_expression", "interval"),
    ({"cron_expression": "0 0 31 2 *"}, "/cron_expression", "never fires"),
    ({"cron_expression": "0 0 * * * * *"}, "/cron_expression", "five"),
    ({"cron_expression": "é * * * *"}, "/cron_expression", "ASCII"),
    ({"cron_expression": None}, "/cron_expression", "interval_seconds"),
    ({"interval_seconds": 60}, "/cron_expression", "either"),
    ({"cron_expression": None, "interval_seconds": 0}, "/interval_seconds", "1"),
    ({"cron_expression": None, "interval_seconds": 1.5}, "/interval_seconds", "whole"),
    ({"cron_expression": None, "interval_seconds": 1e15}, "/interval_seconds", "10 years"),
    (
        {"cron_expression": None, "interval_seconds": 60, "interval_from": "9"},
        "/interval_from",
        "09:07",
    ),
    ({"interval_from": "09:07"}, "/interval_from", "interval_seconds"),
    ({"timezone": "Europe/Berln"}, "/timezone", "Europe/Berlin"),
    ({"timezone": "berlin"}, "/timezone", "Europe/Berlin"),
    ({"timezone": "../etc/passwd"}, "/timezone", "IANA"),
    ({"dst": {"gap": "jump"}}, "/dst/gap", "fire_after, skip"),
    ({"dst": {"fould": "first"}}, "/dst/fould", "'fold'"),
    (
        {"start_date": "2027-01-02T00:00:00Z", "end_date": "2027-01-01T00:00:00Z"},
        "/end_date",
        "later than start_date",
    ),
    (
        {"start_date": "2027-03-01T00:00:00Z", "end_date": "2027-03-02T00:00:00Z"},
        "/end_date",
        "nothing fires",
    ),
    ({"start_date": "2027-01-02T00:00:00"}, "/start_date", "zone"),
    ({"start_date": "2300-01-01T00:00:00Z"}, "/start_date", "2200"),
]
BODIES: list[tuple[dict[str, Any], str, str]] = [
    ({"backfill_limit": 5}, "/backfill_limit", "backfill"),
    ({"backfill_window_seconds": 5}, "/backfill_window_seconds", "backfill"),
    ({"missed_run_policy": "backfill", "backfill_limit": 0}, "/backfill_limit", "1"),
    ({"missed_run_policy": "later"}, "/missed_run_policy", "fire_once"),
    ({"overlap_policy": "kill"}, "/overlap_policy", "cancel_running"),
    ({"missed_after_seconds": 0.5}, "/missed_after_seconds", "1"),
    ({"max_runs": 0}, "/max_runs", "1"),
    ({"jitter_seconds": 86401}, "/jitter_seconds", "86400"),
    ({"sla_seconds": 0}, "/sla_seconds", "0"),
    ({"sla_seconds": 1e300}, "/sla_seconds", ""),
    ({"source": "x" * 101}, "/source", "100"),
    ({"tags": ["a", "\0"]}, "/tags/1", "NUL"),
    ({"task_type": ""}, "/task_type", "1"),
    ({"callback_url": None}, "/target", "callback_url"),
    ({"callback_url": "ftp://x/"}, "/callback_url", "http"),
    ({"callback_method": "BREW"}, "/callback_method", "POST"),
    ({"cron": "* * * * *"}, "/cron", "cron_expression"),
    (
        {"payload_template": {"a": [{"b": "{{ fire_tme }}"}]}},
        "/payload_template/a/0/b",
        "fire_time",
    ),
    ({"payload_template": {"a/b": "{{ fire_time"}}, "/payload_template/a~1b", "}}"),
    ({"payload_template": "{{ fire_time | Mars/Base }}"}, "/payload_template", "Mars/Base"),
    ({"payload_template": ["{{ fire_time | %Q }}"]}, "/payload_template/0", "%Y"),
    ({"payload_template": {"{{ job }}": 1}}, "/payload_template/{{ job }}", "job_name"),
]


async def test_a_value_that_cannot_be_used_is_named(api: Api, connection: Connection) -> None:
    for fields, pointer, words in SCHEDULES + BODIES:
        for method, path in (("POST", JOBS), ("PUT", f"{JOBS}/report")):
            problem = await call(api, method, path, 422, JOB | fields)
            assert problem["errors"][0]["pointer"] == pointer, (fields, problem)
            assert words in problem["detail"]
    assert await connection.fetchval("SELECT count(*) FROM gnomon.cron_job") == 0


async def test_a_preview_refuses_what_creation_refuses(api: Api) -> None:
    for fields, pointer, words in SCHEDULES:
        body = {"cron_expression": YEARLY} | fields
        problem = await call(api, "POST", f"{JOBS}/preview", 422, body)
        assert problem["errors"][0]["pointer"] == pointer, (fields, problem)
        assert words in problem["detail"]
    for fields, pointer in (
        ({"count": 0}, "/count"),
        ({"count": 1001}, "/count"),
        ({"after": "2026-01-01"}, "/after"),
        ({"cron_job_id": "report"}, "/cron_job_id"),
        ({"name": "x"}, "/name"),
    ):
        body = {"cron_expression": YEARLY} | fields
        problem = await call(api, "POST", f"{JOBS}/preview", 422, body)
        assert problem["errors"][0]["pointer"] == pointer, problem


async def test_a_template_has_the_limit_of_a_payload(api: Api) -> None:
    problem = await call(api, "POST", JOBS, 413, JOB | {"payload_template": "x" * 263_000})
    assert problem["errors"][0]["pointer"] == "/payload_template"
    job = await created(api, payload_template="x" * 262_000 + "\0")
    assert (await call(api, "GET", f"{JOBS}/report", 200)) == job


async def test_a_key_makes_a_creation_one(api: Api) -> None:
    key = {"Idempotency-Key": "k"}
    job = await call(api, "POST", JOBS, 201, JOB, headers=key)
    assert await call(api, "POST", JOBS, 201, JOB, headers=key) == job
    await call(api, "POST", JOBS, 422, DAILY, headers=key)
    await call(api, "DELETE", f"{JOBS}/report", 204, headers={"Idempotency-Key": "d"})
    await call(api, "DELETE", f"{JOBS}/report", 204, headers={"Idempotency-Key": "d"})


async def test_the_document_describes_every_call(api: Api) -> None:
    document = await call(api, "GET", "/api/v1/openapi.json", 200)
    found = {
        operation["operationId"]: (method, path)
        for path, methods in document["paths"].items()
        if path.startswith(JOBS)
        for method, operation in methods.items()
    }
    one = f"{JOBS}/{{ref}}"
    assert found == {
        "create_cron_job": ("post", JOBS),
        "list_cron_jobs": ("get", JOBS),
        "get_cron_job": ("get", one),
        "put_cron_job": ("put", one),
        "patch_cron_job": ("patch", one),
        "delete_cron_job": ("delete", one),
        "pause_cron_job": ("post", f"{one}/pause"),
        "resume_cron_job": ("post", f"{one}/resume"),
        "trigger_cron_job": ("post", f"{one}/trigger"),
        "backfill_cron_job": ("post", f"{one}/backfill"),
        "list_cron_runs": ("get", f"{one}/runs"),
        "preview_cron_job": ("post", f"{JOBS}/preview"),
    }
    schemas = document["components"]["schemas"]
    assert set(schemas["CreateCronJob"]["required"]) == {"name", "task_type"}
    assert set(schemas["CronJobView"]["properties"]) == FIELDS
    assert set(schemas["BackfillCronJob"]["required"]) == {"from", "to"}


def references(node: Any) -> set[str]:
    if isinstance(node, dict):
        own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
        return own.union(*(references(value) for value in node.values()))
    return set().union(*(references(value) for value in node)) if isinstance(node, list) else set()


async def test_the_document_is_whole(api: Api) -> None:
    document = await call(api, "GET", "/api/v1/openapi.json", 200)
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert references(document) <= known
    seen: set[str] = set()
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert operation["operationId"] not in seen
            seen.add(operation["operationId"])
            named = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
            assert named == {part[1:-1] for part in path.split("/") if part.startswith("{")}
            for answer in operation["responses"].values():
                assert answer["description"]


async def test_the_client_has_every_call(api: Api) -> None:
    async with Client(str(api._base_url)) as client:
        name = "nightly 50%"
        job = await client.create_cron_job(JOB | {"name": name})
        assert [each["name"] async for each in client.list_cron_jobs(name="night")] == [name]
        assert await client.get_cron_job(name) == job
        body = DAILY | {"name": name}
        assert (await client.put_cron_job(name, body, dry_run=True))["change"] == "changed"
        assert (await client.put_cron_job(name, body))["change"] == "changed"
        assert (await client.patch_cron_job(name, {"max_runs": 9}))["max_runs"] == 9
        assert (await client.pause_cron_job(name, "why"))["pause_reason"] == "why"
        assert (await client.pause_cron_job(name))["pause_reason"] is None
        assert (await client.resume_cron_job(name))["status"] == "active"
        run = await client.trigger_cron_job(name, "key")
        assert await client.trigger_cron_job(name, "key") == run
        past = {"from": ago(3).isoformat(), "to": ago(1).isoformat()}
        assert len((await client.backfill_cron_job(name, past))["planned"]) == 2
        kinds = [each["kind"] async for each in client.list_cron_runs(name, limit="1")]
        assert kinds == ["manual", "backfill", "backfill"]
        assert (await client.preview_cron_job({"interval_seconds": 60}))["fires"]
        await client.delete_cron_job(name)
        with pytest.raises(ApiProblem, match="no cron job"):
            await client.get_cron_job(name)
