"""`GET /tasks/{id}/transitions`, of task types that log them, over real sockets."""

from typing import Any

from tests.conftest import serving
from tests.integration.api_calls import BODY, LATER, TASKS, Api, call
from tests.integration.bulk_calls import Stepper
from tests.integration.identity import bearer, make_key, make_tenant

from gnomon.access.principal import Role
from gnomon.store.postgres.database import Database

TYPES = "/api/v1/task-types"
STORED = (None, "WAITING")


async def log_type(api: Api, name: str = "mail", **options: Any) -> None:
    body = {"defaults": {"log_transitions": True}}
    await call(api, "PUT", f"{TYPES}/{name}", 201, body, **options)


async def logged(api: Api, body: dict[str, Any] = LATER) -> str:
    task_id: str = (await call(api, "POST", TASKS, 202, body))["task_id"]
    return task_id


async def steps(api: Api, task_id: str) -> list[tuple[str | None, str | None]]:
    found = await call(api, "GET", f"{TASKS}/{task_id}/transitions", 200)
    assert found["next_cursor"] is None
    return [(each["from_state"], each["to_state"]) for each in found["transitions"]]


async def test_a_task_is_paused_resumed_cancelled_and_repeated(api: Api) -> None:
    before = await logged(api)
    await log_type(api)
    task_id = await logged(api)
    for action in ("pause", "resume", "cancel"):
        await call(api, "POST", f"{TASKS}/{task_id}/{action}", 200)
    assert await steps(api, task_id) == [
        STORED, ("WAITING", "PAUSED"), ("PAUSED", "WAITING"), ("WAITING", "CANCELLED"),
    ]  # fmt: skip
    (first, *_) = (await call(api, "GET", f"{TASKS}/{task_id}/transitions", 200))["transitions"]
    assert first.keys() == {
        "number", "at", "from_state", "to_state", "attempt", "fence", "node",
    }  # fmt: skip
    again = await call(api, "POST", f"{TASKS}/{task_id}/retry", 202)
    assert (await steps(api, again["task_id"]))[0] == STORED
    assert await steps(api, before) == []  # stored before its type logged


async def test_tasks_that_are_deleted_together_leave_their_transitions(
    api: Api, database: Database
) -> None:
    await log_type(api)
    batch = await call(api, "POST", f"{TASKS}/batch", 202, {"tasks": [LATER, LATER]})
    ids = [each["task_id"] for each in batch["tasks"]]
    await call(api, "POST", f"{TASKS}/{ids[0]}/cancel", 200)
    body = {"action": "delete", "filter": {"task_type": "mail"}}
    done = await Stepper(database).done(api, body)
    assert done["done"] == 2
    assert await steps(api, ids[0]) == [STORED, ("WAITING", "CANCELLED"), ("CANCELLED", None)]
    assert await steps(api, ids[1]) == [STORED, ("WAITING", None)]
    await call(api, "GET", f"{TASKS}/{ids[1]}", 404)


async def test_no_submission_says_whether_it_is_logged(api: Api) -> None:
    for body in (BODY | {"log_transitions": True}, BODY | {"log_transitions": False}):
        problem = await call(api, "POST", TASKS, 422, body)
        assert "log_transitions" in str(problem)
    problem = await call(api, "PUT", f"{TYPES}/mail", 422, {"defaults": {"log_transitions": "yes"}})
    assert problem["errors"][0]["pointer"] == "/defaults/log_transitions"


async def test_what_cannot_be_asked_is_refused(api: Api) -> None:
    task_id = await logged(api)
    path = f"{TASKS}/{task_id}/transitions"
    for query in ({"limit": 0}, {"cursor": "x"}, {"state": "RUNNING"}):
        await call(api, "GET", path, 422, params=query)
    await call(api, "GET", path.replace(task_id[:8], "00000000"), 404)


async def test_nobody_reads_those_of_another_tenant(database: Database, database_dsn: str) -> None:
    for tenant in ("mine", "theirs"):
        await make_tenant(database, tenant)
    _, mine = await make_key(database, "mine", roles={Role.READ})
    _, theirs = await make_key(database, "theirs", roles={Role.ADMIN})
    async with serving(database_dsn, auth_enabled=True) as api:
        await log_type(api, headers=bearer(theirs))
        task = await call(api, "POST", TASKS, 202, {"task_type": "mail"}, headers=bearer(theirs))
        path = f"{TASKS}/{task['task_id']}/transitions"
        found = await call(api, "GET", path, 200, headers=bearer(theirs))
        assert len(found["transitions"]) == 1
        await call(api, "GET", path, 404, headers=bearer(mine))
