"""`/cron-jobs` over real sockets, on a real PostgreSQL: what is promised about each request."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from tests.integration.api_calls import Api, call
from tests.integration.cron_calls import DAILY, JOB, JOBS, NOBODY, YEARLY, created

from gnomon import Client

if TYPE_CHECKING:
    import asyncpg

Connection: TypeAlias = "asyncpg.Connection[Any]"

FIELDS = {
    "cron_job_id", "name", "status", "description", "cron_expression", "interval_seconds",
    "interval_from", "timezone", "dst", "task_type", "target", "payload_template",
    "overlap_policy", "missed_run_policy", "missed_after_seconds", "backfill_limit",
    "backfill_window_seconds", "start_date", "end_date", "max_runs", "jitter_seconds",
    "sla_seconds", "priority", "delivery", "retry_policy", "timeout_seconds", "tags", "queue",
    "preemptible", "keep_payload", "warn_after_seconds", "source", "next_fire_at",
    "runs", "active_task_id", "paused_at",
    "pause_reason", "paused_by", "last_fire_at", "last_status", "last_success_at", "created_at",
    "updated_at", "created_by", "definition_version",
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
            assert str((await client.get_cron_job(name)).cron_job_id) == job["cron_job_id"]
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
async def test_a_query_that_cannot_be_used(shared_api: Api, path: str, pointer: str) -> None:
    problem = await call(shared_api, "GET", f"{JOBS}{path}", 422)
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
    assert changed == job | changes | {"updated_at": updated, "definition_version": 2}
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


async def test_many_puts_at_once_make_one_job(api: Api, connection: Connection) -> None:
    async def done(n: int) -> str:
        async with api.put(f"{JOBS}/report", json=JOB | {"max_runs": n % 3 + 1}) as answer:
            change = (await answer.json())["change"]
            assert answer.status == (201 if change == "created" else 200)
            return str(change)

    changes = await asyncio.gather(*(done(n) for n in range(20)))
    assert changes.count("created") == 1
    assert await connection.fetchval("SELECT count(*) FROM gnomon.cron_job") == 1


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
