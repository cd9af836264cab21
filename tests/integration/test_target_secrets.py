"""Secret headers: stored as given, never shown, kept when the mask is sent back."""

import json

import aiohttp
from tests.integration.api_calls import BODY, TASKS, call
from tests.integration.support import Connection

CRON = "/api/v1/cron-jobs"
SECRET = "Bearer canary-4711"
URL = "http://127.0.0.1:9/hook"
TARGET = {"type": "http", "url": URL, "headers": {"Authorization": SECRET, "Accept": "x/y"}}
SHOWN = {"Authorization": "***", "Accept": "x/y"}

Api = aiohttp.ClientSession


async def stored(connection: Connection, column: str, table: str) -> dict[str, str]:
    text = await connection.fetchval(f"SELECT {column} FROM gnomon.{table}")
    document = json.loads(text)
    return dict((document if column == "target" else document["target"])["headers"])


async def test_of_a_task(api: Api, connection: Connection) -> None:
    asked = {"task_type": "mail", "target": TARGET, "delay_seconds": 3600}
    key = {"Idempotency-Key": "once"}
    task = await call(api, "POST", TASKS, 202, asked, headers=key)
    assert task["target"]["headers"] == SHOWN
    path = f"{TASKS}/{task['task_id']}"
    answers = [
        await call(api, "POST", TASKS, 202, asked, headers=key),  # given again
        await call(api, "GET", path, 200),
        await call(api, "GET", TASKS, 200),
        await call(api, "PATCH", path, 200, {"target": task["target"] | {"method": "PUT"}}),
    ]
    assert SECRET not in json.dumps(answers)
    assert await stored(connection, "target", "task") == TARGET["headers"]
    elsewhere = task["target"] | {"url": "http://127.0.0.1:10/hook"}
    problem = await call(api, "PATCH", path, 422, {"target": elsewhere})
    assert problem["errors"][0]["pointer"] == "/target/headers/Authorization"
    await call(api, "POST", TASKS, 422, asked | {"target": task["target"]})


async def test_of_a_cron_job(api: Api, connection: Connection) -> None:
    job = {"name": "j", "task_type": "mail", "target": TARGET, "cron_expression": "0 3 * * *"}
    made = await call(api, "POST", CRON, 201, job)
    assert made["target"]["headers"] == SHOWN
    again = job | {"target": made["target"]}
    assert (await call(api, "PUT", f"{CRON}/j", 200, again))["change"] == "unchanged"
    looked = await call(api, "PUT", f"{CRON}/j?dry_run=true", 200, again | {"timezone": "CET"})
    assert looked["fields"].keys() == {"timezone"}
    await call(api, "PATCH", f"{CRON}/j", 200, {"target": made["target"] | {"method": "PUT"}})
    assert await stored(connection, "definition", "cron_job") == TARGET["headers"]

    other = TARGET | {"method": "PUT", "headers": SHOWN | {"Authorization": "Bearer other"}}
    for query in ("?dry_run=true", ""):
        changed = await call(api, "PUT", f"{CRON}/j{query}", 200, job | {"target": other})
        assert changed["change"] == "changed"
        assert "Bearer" not in json.dumps(changed)
    assert (await stored(connection, "definition", "cron_job"))["Authorization"] == "Bearer other"
    await call(api, "POST", CRON, 422, again | {"name": "k"})
    await call(api, "PUT", f"{CRON}/k", 422, again | {"name": "k"})


async def test_plain_targets_are_as_before(api: Api) -> None:
    task = await call(api, "POST", TASKS, 202, BODY | {"delay_seconds": 60})
    assert task["target"]["url"] == BODY["callback_url"]
