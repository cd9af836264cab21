"""Targets that can be seen not to be public, over HTTP."""

from typing import Any

from tests.conftest import serving
from tests.integration.identity import bearer, make_key

from gnomon.access.principal import Role
from gnomon.store.postgres.database import Database

INSIDE = "http://169.254.169.254/latest"
TASK = {"task_type": "t", "callback_url": INSIDE}
IN_FULL = {"task_type": "t", "target": {"type": "http", "url": "http://[::ffff:10.0.0.1]/"}}
JOB = {"name": "j", "interval_seconds": 3600, **TASK}
FINE = {"task_type": "t", "callback_url": "https://example.com/", "delay_seconds": 3600}


async def test_every_way_to_name_a_target_is_guarded(database_dsn: str, database: Database) -> None:
    _, key = await make_key(database, name="all", roles=[Role.SUBMIT, Role.OPERATE])
    async with serving(database_dsn, auth_enabled=True) as api:

        async def ask(method: str, path: str, body: Any) -> tuple[int, Any]:
            url = f"/api/v1/{path}"
            async with api.request(method, url, json=body, headers=bearer(key)) as answer:
                return answer.status, await answer.json()

        status, task = await ask("POST", "tasks", FINE)
        assert status == 202
        status, _ = await ask("POST", "cron-jobs", {**JOB, "callback_url": FINE["callback_url"]})
        assert status == 201
        for method, path, body, pointer in (
            ("POST", "tasks", TASK, "/callback_url"),
            ("POST", "tasks", IN_FULL, "/target/url"),
            ("POST", "tasks/batch", {"tasks": [FINE, TASK]}, "/tasks/1/callback_url"),
            ("PATCH", f"tasks/{task['task_id']}", {"callback_url": INSIDE}, "/callback_url"),
            ("POST", "cron-jobs", {**JOB, "name": "other"}, "/callback_url"),
            ("PUT", "cron-jobs/j", JOB, "/callback_url"),
            ("PATCH", "cron-jobs/j", {"target": IN_FULL["target"]}, "/target/url"),
        ):
            status, problem = await ask(method, path, body)
            assert (status, problem["errors"][0]["pointer"]) == (422, pointer), (method, path)
            assert "not a public address" in problem["errors"][0]["detail"]
