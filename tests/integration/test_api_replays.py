"""What was accepted under a key is answered as it was then, whatever the rules say now."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.conftest import serving
from tests.integration.api_calls import LATER, TASKS, Api, call
from tests.integration.identity import bearer, make_key, make_tenant
from tests.integration.quota_calls import give, live
from tests.integration.support import Connection
from tests.waiting import eventually

from gnomon.store.postgres.database import Database

LONG = LATER | {"payload": "x" * 100}
SHORT = LATER | {"payload": "x"}
TYPE = "/api/v1/task-types/mail"


async def sent(
    api: Api,
    body: Any,
    status: int = 202,
    path: str = TASKS,
    method: str = "POST",
    headers: Any = None,
) -> tuple[Any, bool]:
    """The answer, and whether it was given before."""
    async with api.request(method, path, json=body, headers=headers) as answer:
        assert answer.status == status, await answer.text()
        again = answer.headers.get("Idempotency-Replayed") == "true"
        return await answer.json(content_type=None), again


def key(name: str) -> dict[str, str]:
    return {"Idempotency-Key": name}


async def test_a_quota_that_came_later(api: Api, connection: Connection) -> None:
    first, _ = await sent(api, LONG, headers=key("k"))
    await give(connection, api, payload_bytes=50)
    assert await sent(api, LONG, headers=key("k")) == (first, True)
    assert await sent(api, LONG | {"idempotency_key": "k"}) == (first, True)
    await sent(api, LONG, 413)
    await sent(api, LONG, 413, headers=key("new"))
    # With another body it is another request, which is refused for what it is.
    await sent(api, LONG | {"name": "other"}, 413, headers=key("k"))
    assert await live(connection) == 1
    await connection.execute("UPDATE gnomon.idempotency SET expires_at = gnomon.now()")
    await sent(api, LONG, 413, headers=key("k"))


async def test_a_schema_that_came_later(api: Api) -> None:
    first, _ = await sent(api, LONG, headers=key("k"))
    await call(api, "PUT", TYPE, 201, {"schema": {"maxLength": 50}})

    async def refused() -> bool:
        async with api.post(TASKS, json=LONG) as answer:
            return answer.status == 422

    await eventually(refused)
    await sent(api, LONG, 422, headers=key("new"))
    assert await sent(api, LONG, headers=key("k")) == (first, True)


async def test_a_moment_that_has_passed(api: Api) -> None:
    expires_at = datetime.now(UTC) + timedelta(seconds=1)
    body = {"task_type": "mail", "callback_url": "http://127.0.0.1:9/hook"}
    body["expires_at"] = expires_at.isoformat()
    first, _ = await sent(api, body, headers=key("k"))

    async def refused() -> bool:
        async with api.post(TASKS, json=body) as answer:
            return answer.status == 422

    await eventually(refused)
    assert await sent(api, body, headers=key("k")) == (first, True)


async def test_a_guard_that_came_later(database_dsn: str, database: Database) -> None:
    await make_tenant(database, "other")
    (_, ours), (_, theirs) = await make_key(database), await make_key(database, "other")
    _, only_hooks = await make_key(database, name="hooks", task_types=["hooks"])
    async with serving(database_dsn, auth_enabled=True, targets_allow=("127.0.0.0/8",)) as api:
        first, _ = await sent(api, LATER, headers=key("k") | bearer(ours))
    async with serving(database_dsn, auth_enabled=True) as api:
        assert await sent(api, LATER, headers=key("k") | bearer(ours)) == (first, True)
        await sent(api, LATER, 422, headers=key("other") | bearer(ours))
        # What one may not do at all is not answered either, and keys are a tenant's own.
        await sent(api, LATER, 422, headers=key("k") | bearer(theirs))
        await sent(api, LATER, 403, headers=key("k") | bearer(only_hooks))


async def test_a_batch_under_one_key(api: Api, connection: Connection) -> None:
    batch, path = {"tasks": [SHORT, LONG]}, f"{TASKS}/batch"
    first, _ = await sent(api, batch, path=path, headers=key("k"))
    await give(connection, api, payload_bytes=50)
    assert await sent(api, batch, path=path, headers=key("k")) == (first, True)
    problem, _ = await sent(api, batch, 413, path=path, headers=key("other"))
    assert problem["errors"][0]["pointer"] == "/tasks/1/payload"
    assert await live(connection) == 2


@pytest.mark.parametrize("alone", [True, False], ids=["sent alone", "sent in a batch"])
async def test_a_batch_of_tasks_with_keys(api: Api, connection: Connection, alone: bool) -> None:
    path = f"{TASKS}/batch"
    kept = LONG | {"idempotency_key": "kept"}
    if alone:
        first = (await sent(api, kept))[0]
    else:
        first = (await sent(api, {"tasks": [kept]}, path=path))[0]["tasks"][0]
    await give(connection, api, payload_bytes=50)
    (found, _) = await sent(api, {"tasks": [kept, SHORT, kept]}, path=path)
    ids = [task["task_id"] for task in found["tasks"]]
    assert (ids[0], ids[2]) == (first["task_id"], first["task_id"])
    assert ids[1] != ids[0]
    assert (await sent(api, {"tasks": [kept]}, path=path))[0]["tasks"][0]["task_id"] == ids[0]
    assert await live(connection) == 2
    for refused in (LONG, LONG | {"idempotency_key": "new"}, kept | {"name": "other"}):
        problem, _ = await sent(api, {"tasks": [kept, SHORT, refused]}, 413, path=path)
        assert problem["errors"][0]["pointer"] == "/tasks/2/payload"
    assert await live(connection) == 2


async def test_a_change_of_a_task(api: Api, connection: Connection) -> None:
    task, _ = await sent(api, SHORT)
    path, change = f"{TASKS}/{task['task_id']}", {"payload": "x" * 100}
    first, _ = await sent(api, change, 200, path, "PATCH", headers=key("k"))
    await give(connection, api, payload_bytes=50)
    assert await sent(api, change, 200, path, "PATCH", headers=key("k")) == (first, True)
    await sent(api, change, 413, path, "PATCH", headers=key("other"))


async def test_what_cannot_have_been_accepted_is_refused_for_what_it_is(api: Api) -> None:
    task = (
        b'{"task_type":"mail","callback_url":"http://127.0.0.1:9/",'
        b'"idempotency_key":"%s","payload":"%s"}'
    )
    for name, text, pointer in ((b"k", b"\xff", "payload"), (b"\\u0000", b"", "idempotency_key")):
        body = b'{"tasks":[%s]}' % (task % (name, text))
        headers = key("k") | {"Content-Type": "application/json"}
        problem = await call(api, "POST", f"{TASKS}/batch", 422, data=body, headers=headers)
        assert problem["errors"][0]["pointer"] == f"/tasks/0/{pointer}"


async def test_a_key_counts_also_where_a_body_has_a_value_twice(api: Api) -> None:
    # msgspec takes the last one, and does not look into the other.
    body = json.dumps(LATER).encode().replace(b"{", b'{"payload":"\xff","payload":1,', 1)
    headers = key("k") | {"Content-Type": "application/json"}
    for path, data in ((TASKS, body), (f"{TASKS}/batch", b'{"tasks":[%s]}' % body)):
        problem = await call(api, "POST", path, 400, data=data, headers=headers)
        assert "UTF-8" in problem["detail"]
    assert (await call(api, "GET", TASKS, 200))["tasks"] == []
