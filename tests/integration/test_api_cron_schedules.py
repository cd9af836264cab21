"""When a schedule fires, as a preview tells it; and what cannot be a schedule, or a job."""

from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from tests.integration.api_calls import Api, call
from tests.integration.cron_calls import JOB, JOBS, YEARLY, created

if TYPE_CHECKING:
    import asyncpg

Connection: TypeAlias = "asyncpg.Connection[Any]"


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
    shared_api: Api, expression: str, after: str, dst: Any, fires: list[str], words: str
) -> None:
    body = {
        "cron_expression": expression,
        "timezone": "America/New_York",
        "dst": dst,
        "after": f"{after}T00:00:00-05:00",
        "count": 2,
    }
    found = (await call(shared_api, "POST", f"{JOBS}/preview", 200, body))["fires"]
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
    ({"cron_expression": "0 0 * * * * *"}, "/cron_expression", "start_date and end_date"),
    ({"cron_expression": "* * *"}, "/cron_expression", "five"),
    ({"cron_expression": "*/90 * * * *"}, "/cron_expression", "interval_seconds = 5400"),
    ({"cron_expression": "CRON_TZ=UTC 0 9 * * *"}, "/cron_expression", "timezone 'UTC'"),
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
    ({"start_date": "2300-01-01T00:00:00Z"}, "/start_date", "2199"),
    ({"start_date": "2199-12-31T23:59:59-12:00"}, "/start_date", "2199"),
    ({"end_date": "2200-01-01T00:00:00Z"}, "/end_date", "2199"),
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
    ({"sla_seconds": 1e-46}, "/sla_seconds", "0.001"),
    ({"timeout_seconds": 1e-46}, "/timeout_seconds", "0.001"),
    (
        {"missed_run_policy": "backfill", "backfill_window_seconds": 1e-46},
        "/backfill_window_seconds",
        "0.001",
    ),
    ({"source": "x" * 101}, "/source", "100"),
    ({"tags": ["a", "\0"]}, "/tags/1", "control"),
    ({"task_type": ""}, "/task_type", "1"),
    ({"callback_url": None, "task_type": "a\u200bb"}, "/task_type", "no target"),
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
