"""Tasks and cron jobs without a target: they are for the handler of their task type."""

from typing import Any

from tests.integration.api_calls import TASKS, Api, call

JOBS = "/api/v1/cron-jobs"
LATER = {"task_type": "send_email", "payload": {"to": "a@b.c"}, "delay_seconds": 3600}
JOB = {"name": "mails", "task_type": "send_email", "interval_seconds": 86_400}
HANDLER = {"type": "python", "function": "send_email"}


def handler(task_type: str) -> dict[str, Any]:
    return {"type": "python", "function": task_type}


async def test_a_task_goes_to_the_handler_of_its_type(api: Api) -> None:
    task = await call(api, "POST", TASKS, 202, LATER)
    assert task["target"] == HANDLER
    batch = await call(api, "POST", f"{TASKS}/batch", 202, {"tasks": [LATER]})
    (receipt,) = batch["tasks"]
    stored = await call(api, "GET", f"{TASKS}/{receipt['task_id']}", 200)
    assert (stored["task_type"], stored["target"]) == ("send_email", HANDLER)


async def test_a_task_without_target_is_the_same_request_under_its_key(api: Api) -> None:
    headers = {"Idempotency-Key": "welcome-1"}
    first = await call(api, "POST", TASKS, 202, LATER, headers=headers)
    assert (await call(api, "POST", TASKS, 202, LATER, headers=headers)) == first


async def test_a_cron_job_goes_to_the_handler_of_its_type(api: Api) -> None:
    job = await call(api, "POST", JOBS, 201, JOB)
    assert job["target"] == HANDLER
    again = await call(api, "PUT", f"{JOBS}/mails", 200, JOB)
    assert again["change"] == "unchanged"
    run = await call(api, "POST", f"{JOBS}/mails/trigger", 202)
    task = await call(api, "GET", f"{TASKS}/{run['run_id']}", 200)
    assert task["target"] == HANDLER


async def test_the_handler_of_a_job_follows_its_type(api: Api) -> None:
    path = f"{JOBS}/mails"
    await call(api, "POST", JOBS, 201, JOB)
    job = await call(api, "PATCH", path, 200, {"task_type": "send_letter"})
    assert job["target"] == handler("send_letter")
    problem = await call(api, "PATCH", path, 422, {"task_type": "a\u200bb"})
    assert problem["errors"][0]["pointer"] == "/task_type"
    job = await call(api, "PATCH", path, 200, {"task_type": "x", "target": handler("other")})
    assert job["target"] == handler("other")
    job = await call(api, "PATCH", path, 200, {"task_type": "y"})
    assert job["target"] == handler("other"), "a function that was named stays"
