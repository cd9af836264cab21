"""Defaults of a task type: applied at submission to the fields that it leaves out."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.conftest import serving
from tests.integration.api_calls import LATER, TASKS, Api, call
from tests.integration.identity import bearer, make_key, make_tenant
from tests.integration.support import Connection
from tests.waiting import eventually

from gnomon.store.postgres.database import Database

TYPES = "/api/v1/task-types"
CRON = "/api/v1/cron-jobs"
DEFAULTS: dict[str, Any] = {
    "priority": "HIGH",
    "delivery": "exactly_once",
    "retry_policy": {"max_retries": 7, "backoff": "fixed"},
    "timeout_seconds": 90.0,
    "expires_after_seconds": 60.0,
    "tags": ["a", "b"],
    "queue": "mails",
    "preemptible": True,
    "keep_payload": "never",
    "jitter_seconds": 5.0,
}
SHOWN = [
    name
    for name in DEFAULTS
    if name not in ("retry_policy", "expires_after_seconds", "jitter_seconds")
]
BARE = {"task_type": "mail", "delay_seconds": 3600}


async def put_defaults(
    api: Api, defaults: dict[str, Any], status: int = 201, name: str = "mail", **more: Any
) -> Any:
    return await call(api, "PUT", f"{TYPES}/{name}", status, {"defaults": defaults, **more})


async def in_force(api: Api, body: dict[str, Any], **shown: Any) -> Any:
    """A task of the type, once the API has heard of the defaults."""

    async def follows() -> Any:
        task = await call(api, "POST", TASKS, 202, body)
        return task if all(task[name] == value for name, value in shown.items()) else None

    return await eventually(follows)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def test_they_are_kept_replaced_and_forgotten(api: Api) -> None:
    made = await put_defaults(api, DEFAULTS)
    assert (made["schema"], made["defaults"]) == (True, DEFAULTS)
    assert await call(api, "GET", f"{TYPES}/mail", 200) == made
    (item,) = (await call(api, "GET", TYPES, 200))["task_types"]
    assert item["defaults"] == DEFAULTS
    schema = {"type": "object"}
    both = await put_defaults(api, {"queue": "q"}, 200, schema=schema)
    assert (both["schema"], both["defaults"]) == (schema, {"queue": "q"})
    alone = await call(api, "PUT", f"{TYPES}/mail", 200, {"schema": schema})
    assert (alone["schema"], alone["defaults"]) == (schema, {})
    nothing = await call(api, "PUT", f"{TYPES}/mail", 200, {"defaults": None})
    assert (nothing["schema"], nothing["defaults"]) == (True, {})
    await call(api, "DELETE", f"{TYPES}/mail", 204)
    await call(api, "GET", f"{TYPES}/mail", 404)


async def test_a_task_has_what_its_submission_leaves_out(api: Api) -> None:
    await put_defaults(api, DEFAULTS)
    task = await in_force(api, BARE, queue="mails")
    assert {name: task[name] for name in SHOWN} == {name: DEFAULTS[name] for name in SHOWN}
    assert (task["retry_policy"]["max_retries"], task["retry_policy"]["backoff"]) == (7, "fixed")
    assert moment(task["expires_at"]) - moment(task["execute_at"]) == timedelta(seconds=60)
    assert task["target"] == {"type": "python", "function": "mail"}
    stored = await call(api, "GET", f"{TASKS}/{task['task_id']}", 200)
    task.pop("warnings", None)  # nobody handles it here
    assert stored == task

    batch = await call(api, "POST", f"{TASKS}/batch", 202, {"tasks": [BARE]})
    again = await call(api, "GET", f"{TASKS}/{batch['tasks'][0]['task_id']}", 200)
    assert {name: again[name] for name in SHOWN} == {name: DEFAULTS[name] for name in SHOWN}
    other = await call(api, "POST", TASKS, 202, LATER | {"task_type": "other"})
    assert (other["queue"], other["priority"], other["expires_at"]) == (None, "MEDIUM", None)


async def test_they_are_in_force_where_they_were_put_at_once(api: Api) -> None:
    for number, status in ((1, 201), (2, 200), (3, 200)):
        await put_defaults(api, {"timeout_seconds": float(number)}, status)
        task = await call(api, "POST", TASKS, 202, BARE)
        assert task["timeout_seconds"] == number


async def test_what_a_submission_says_counts_also_where_it_is_the_built_in_value(api: Api) -> None:
    await put_defaults(api, DEFAULTS)
    await in_force(api, BARE, queue="mails")
    own = {
        "priority": "MEDIUM",
        "delivery": "at_least_once",
        "timeout_seconds": 30.0,
        "tags": [],
        "queue": None,
        "preemptible": False,
        "keep_payload": "always",
        "expires_at": None,
    }
    task = await call(api, "POST", TASKS, 202, BARE | own | {"retry_policy": {}})
    assert {name: task[name] for name in own} == own
    assert task["retry_policy"]["max_retries"] == 3
    assert task["retry_policy"]["backoff"] == "exponential"


async def test_a_delivery_mode_in_the_request_takes_no_retries_from_them(api: Api) -> None:
    await put_defaults(api, {"retry_policy": {"max_retries": 5}, "preemptible": True, "queue": "q"})
    await in_force(api, BARE, queue="q")
    task = await call(api, "POST", TASKS, 202, BARE | {"delivery": "at_most_once"})
    assert (task["retry_policy"]["max_retries"], task["preemptible"]) == (0, False)
    refused = BARE | {"delivery": "at_most_once", "retry_policy": {"max_retries": 1}}
    problem = await call(api, "POST", TASKS, 422, refused)
    assert problem["errors"][0]["pointer"] == "/retry_policy/max_retries"


async def test_tasks_for_one_moment_are_spread_by_their_jitter(api: Api) -> None:
    await put_defaults(api, {"jitter_seconds": 600.0, "queue": "q"})
    at = "2190-06-01T09:00:00Z"
    asked = {"task_type": "mail", "execute_at": at, "queue": "q"}
    tasks = {"tasks": [asked] * 20}
    batch = await call(api, "POST", f"{TASKS}/batch", 202, tasks)
    found = [await call(api, "GET", f"{TASKS}/{each['task_id']}", 200) for each in batch["tasks"]]
    late = [moment(task["execute_at"]) - moment(at) for task in found]
    assert all(timedelta(0) <= each < timedelta(minutes=10) for each in late)
    assert len(set(late)) > 10
    alone = await call(api, "POST", TASKS, 202, asked | {"jitter_seconds": 0})
    assert alone["execute_at"] == at
    now = await call(api, "POST", TASKS, 202, {"task_type": "mail", "jitter_seconds": 86400})
    assert moment(now["execute_at"]) >= moment(now["created_at"])
    job = {"name": "j", "task_type": "mail", "cron_expression": "0 9 * * *"}
    made = await call(api, "POST", CRON, 201, job)
    assert made["jitter_seconds"] == 600.0
    own: dict[str, Any] = {**job, "name": "k", "jitter_seconds": 0}
    assert (await call(api, "POST", CRON, 201, own))["jitter_seconds"] == 0
    last = {**asked, "execute_at": "2199-12-31T23:59:00Z"}
    assert (await call(api, "POST", TASKS, 202, last))["execute_at"] <= "2199-12-31T23:59:59Z"
    for wrong in (-1, 86401, "1h"):
        problem = await call(api, "POST", TASKS, 422, asked | {"jitter_seconds": wrong})
        assert problem["errors"][0]["pointer"] == "/jitter_seconds"


async def test_a_task_expires_after_its_jitter(api: Api) -> None:
    """What would expire before it starts is refused."""
    soon = {"task_type": "mail", "jitter_seconds": 86400, "expires_at": "2190-06-01T09:00:00Z"}
    at = {"execute_at": "2190-06-01T08:59:59Z"}
    ids = {"tasks": [soon | at]}
    problem = await call(api, "POST", f"{TASKS}/batch", 422, ids)
    assert problem["errors"][0]["pointer"].endswith("/expires_at")


async def test_an_expiry_is_within_the_years_that_can_be(api: Api) -> None:
    longest = 175 * 365.25 * 24 * 3600.0
    await put_defaults(api, {"expires_after_seconds": longest, "queue": "q"})
    task = await in_force(api, BARE | {"execute_at": "2199-12-01T00:00:00Z", "delay_seconds": None},
                          queue="q")  # fmt: skip
    assert task["expires_at"] == "2199-12-31T23:59:59Z"


async def test_a_cron_job_takes_them_when_it_is_declared(api: Api) -> None:
    await put_defaults(api, DEFAULTS)
    await in_force(api, BARE, queue="mails")
    job = {"name": "j", "task_type": "mail", "interval_seconds": 86_400}
    made = await call(api, "POST", CRON, 201, job)
    assert {name: made[name] for name in SHOWN} == {name: DEFAULTS[name] for name in SHOWN}
    await put_defaults(api, {"queue": "new"}, 200)
    await in_force(api, BARE, queue="new")
    run = await call(api, "POST", f"{CRON}/j/trigger", 202)
    task = await call(api, "GET", f"{TASKS}/{run['run_id']}", 200)
    assert task["queue"] == "mails", "the job was declared before"
    again = await call(api, "PUT", f"{CRON}/j", 200, job)
    assert again["change"] == "changed"
    assert again["cron_job"]["queue"] == "new"


@pytest.mark.parametrize(
    ("defaults", "pointer"),
    [
        ({"timeout_seconds": 0}, "/defaults/timeout_seconds"),
        ({"expires_after_seconds": 0}, "/defaults/expires_after_seconds"),
        ({"jitter_seconds": 86401}, "/defaults/jitter_seconds"),
        ({"priority": "URGENT"}, "/defaults/priority"),
        ({"queue": "a\0b"}, "/defaults/queue"),
        ({"queue": ""}, "/defaults/queue"),
        ({"tags": ["a", "\n"]}, "/defaults/tags/1"),
        ({"retry_policy": {"max_retries": 1001}}, "/defaults/retry_policy/max_retries"),
        ({"delivery": "at_most_once", "retry_policy": {"max_retries": 1}},
         "/defaults/retry_policy/max_retries"),
        ({"delivery": "at_most_once", "preemptible": True}, "/defaults/preemptible"),
        ({"target": {"type": "python", "function": "f"}}, "/defaults/target"),
        ({"payload": 1}, "/defaults/payload"),
        ([], "/defaults"),
    ],
)  # fmt: skip
async def test_what_cannot_be_a_default_is_named(
    shared_api: Api, defaults: dict[str, Any], pointer: str
) -> None:
    problem = await put_defaults(shared_api, defaults, 422)
    assert problem["errors"][0]["pointer"] == pointer
    await call(shared_api, "GET", f"{TYPES}/mail", 404)


async def test_what_was_stored_past_the_api_hides_nothing(api: Api, connection: Connection) -> None:
    await connection.execute(
        "INSERT INTO gnomon.task_type (tenant_id, name, schema, defaults) VALUES "
        """('default', 'mail', 'true', '{"priority": "URGENT"}'), """
        """('default', 'good', 'true', '{"queue": "q"}')"""
    )
    await in_force(api, BARE | {"task_type": "good"}, queue="q")
    assert (await call(api, "POST", TASKS, 202, BARE))["priority"] == "MEDIUM"
    assert (await call(api, "GET", f"{TYPES}/mail", 200))["defaults"] == {}


async def test_tenants_have_their_own(database_dsn: str, database: Database) -> None:
    await make_tenant(database, "other")
    _, mine = await make_key(database)
    _, theirs = await make_key(database, "other")
    async with serving(database_dsn, auth_enabled=True) as api:
        body = {"defaults": {"queue": "q"}}
        await call(api, "PUT", f"{TYPES}/mail", 201, body, headers=bearer(mine))

        async def follows() -> bool:
            task = await call(api, "POST", TASKS, 202, BARE, headers=bearer(mine))
            return bool(task["queue"] == "q")

        await eventually(follows)
        task = await call(api, "POST", TASKS, 202, BARE, headers=bearer(theirs))
        assert task["queue"] is None
        await call(api, "GET", f"{TYPES}/mail", 404, headers=bearer(theirs))
