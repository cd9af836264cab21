"""Delivery modes over HTTP: which are known, and what at_most_once forbids."""

from typing import Any

import pytest
from tests.integration.api_calls import LATER, TASKS, Api, call, put, submitted
from tests.integration.cron_calls import JOB, JOBS, created
from tests.integration.support import Connection

MODES = ["at_least_once", "at_most_once", "exactly_once"]
ONCE = LATER | {"delivery": "at_most_once"}
POINTER = "/retry_policy/max_retries"


def pointers(problem: Any) -> list[str]:
    return [error["pointer"] for error in problem["errors"]]


@pytest.mark.parametrize("mode", MODES)
async def test_every_mode_is_stored_and_shown(mode: str, api: Api) -> None:
    task = await submitted(api, LATER | {"delivery": mode})
    assert task["delivery"] == mode
    assert task["retry_policy"]["max_retries"] == (0 if mode == "at_most_once" else 3)
    assert await call(api, "GET", f"{TASKS}/{task['task_id']}", 200) | {"warnings": []} == task
    batch = {"tasks": [LATER, LATER | {"delivery": mode}]}
    items = (await call(api, "POST", f"{TASKS}/batch", 202, batch))["tasks"]
    assert (await call(api, "GET", f"{TASKS}/{items[1]['task_id']}", 200))["delivery"] == mode


async def test_at_most_once_takes_a_policy_without_retries_and_no_other(api: Api) -> None:
    policy = {"max_retries": 0, "retry_client_errors": True}
    task = await submitted(api, ONCE | {"retry_policy": policy})
    assert task["retry_policy"]["retry_client_errors"]
    for wrong in ({"max_retries": 1}, {"backoff": "fixed"}):
        problem = await call(api, "POST", TASKS, 422, ONCE | {"retry_policy": wrong})
        assert pointers(problem) == [POINTER]
        assert "never tried again" in problem["detail"]
    batch = {"tasks": [LATER, ONCE | {"retry_policy": {"max_retries": 1}}]}
    problem = await call(api, "POST", f"{TASKS}/batch", 422, batch)
    assert pointers(problem) == [f"/tasks/1{POINTER}"]


async def test_retries_cannot_be_added_later(api: Api) -> None:
    path = f"{TASKS}/{(await submitted(api, ONCE))['task_id']}"
    problem = await call(api, "PATCH", path, 422, {"retry_policy": {"max_retries": 2}})
    assert pointers(problem) == [POINTER]
    policy = {"max_retries": 0, "backoff": "fixed"}
    changed = await call(api, "PATCH", path, 200, {"retry_policy": policy})
    assert changed["retry_policy"]["backoff"] == "fixed"
    path = f"{TASKS}/{(await submitted(api))['task_id']}"
    await call(api, "PATCH", path, 200, {"retry_policy": {"max_retries": 2}})
    unknown = f"{TASKS}/01890000-0000-7000-8000-000000000000"
    await call(api, "PATCH", unknown, 404, {"retry_policy": {"max_retries": 2}})


async def test_a_person_may_have_a_dead_letter_called_again(
    api: Api, connection: Connection
) -> None:
    task = await submitted(api, ONCE)
    await put(connection, task["task_id"], "state = 4, attempt = 1, last_error = 'no'")
    again = await call(api, "POST", f"/api/v1/dead-letters/{task['task_id']}/retry", 202)
    assert (again["status"], again["delivery"]) == ("READY", "at_most_once")
    row = await connection.fetchrow("SELECT retries_left FROM gnomon.task")
    assert row is not None
    assert row["retries_left"] == 0


@pytest.mark.parametrize("mode", MODES)
async def test_a_job_hands_its_mode_to_its_runs(mode: str, api: Api) -> None:
    job = await created(api, delivery=mode)
    assert job["delivery"] == mode
    assert job["retry_policy"]["max_retries"] == (0 if mode == "at_most_once" else 3)
    run = await call(api, "POST", f"{JOBS}/report/trigger", 202)
    task = await call(api, "GET", f"{TASKS}/{run['run_id']}", 200)
    assert (task["delivery"], task["retry_policy"]) == (mode, job["retry_policy"])


async def test_a_job_changes_its_mode(api: Api) -> None:
    await created(api)
    body = {name: value for name, value in JOB.items() if name != "name"}
    put_ = await call(api, "PUT", f"{JOBS}/report", 200, body | {"delivery": "exactly_once"})
    assert put_["fields"] == {"delivery": {"from": "at_least_once", "to": "exactly_once"}}
    job = await call(api, "PATCH", f"{JOBS}/report", 200, {"delivery": "at_least_once"})
    assert job["delivery"] == "at_least_once"

    # Its retries are not taken off in silence.
    problem = await call(api, "PATCH", f"{JOBS}/report", 422, {"delivery": "at_most_once"})
    assert pointers(problem) == [POINTER]
    patch = {"delivery": "at_most_once", "retry_policy": {"max_retries": 0}}
    assert (await call(api, "PATCH", f"{JOBS}/report", 200, patch))["delivery"] == "at_most_once"
    policy = {"retry_policy": {"max_retries": 1}}
    assert pointers(await call(api, "PATCH", f"{JOBS}/report", 422, policy)) == [POINTER]
    wrong = JOB | {"name": "other", "delivery": "at_most_once"} | policy
    assert pointers(await call(api, "POST", JOBS, 422, wrong)) == [POINTER]


async def test_the_document_names_the_modes(api: Api) -> None:
    schemas = (await call(api, "GET", "/api/v1/openapi.json", 200))["components"]["schemas"]
    assert sorted(schemas["DeliveryMode"]["enum"]) == sorted(MODES)
    for name in ("SubmitTask", "TaskView", "CreateCronJob", "CronJobView", "PatchCronJob"):
        assert "DeliveryMode" in str(schemas[name]["properties"]["delivery"]), name
