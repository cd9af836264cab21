"""`/tasks` over real sockets, on a real PostgreSQL: what is promised about each request."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from tests.integration.api_calls import BODY, LATER, TASKS, Api, call, put, submitted

if TYPE_CHECKING:
    import asyncpg

Connection: TypeAlias = "asyncpg.Connection[Any]"
FIELDS = {
    "task_id", "name", "task_type", "status", "priority", "target", "payload", "tags",
    "execute_at", "expires_at", "created_at", "created_by", "started_at", "finished_at",
    "attempt", "next_retry_at", "last_error", "result", "resolution", "cancel_requested",
    "cron_job_id", "retry_of", "delivery", "retry_policy", "timeout_seconds", "idempotency_key",
    "preemptible", "queue", "keep_payload", "sla_seconds", "warn_after_seconds",
    "payload_kept", "progress",
    "correlation_id", "trace_id", "workflow_run_id", "node", "batch_id",
}  # fmt: skip


async def test_a_task_is_answered_as_it_will_be_read(api: Api) -> None:
    body = LATER | {
        "name": "hello",
        "payload": {"b": [1, 2.50, None], "a": "ü\u0000"},
        "priority": "HIGH",
        "tags": ["x", "y", "x"],
        "timeout_seconds": 1.5,
        "retry_policy": {"max_retries": 1, "backoff": "fixed"},
        "idempotency_key": "k1",
    }
    task = await submitted(api, body)
    assert set(task) == FIELDS | {"warnings"}
    assert task["status"] == "SCHEDULED"
    assert task["target"] == {
        "type": "http", "url": BODY["callback_url"], "method": "POST", "headers": {}
    }  # fmt: skip
    assert task["payload"] == body["payload"]
    assert task["tags"] == ["x", "y"]
    assert task["retry_policy"] == {
        "max_retries": 1, "backoff": "fixed", "base_seconds": 1.0, "max_seconds": 60.0,
        "jitter": True, "retry_client_errors": False,
    }  # fmt: skip
    assert task["execute_at"].endswith("Z")
    assert await call(api, "GET", f"{TASKS}/{task['task_id']}", 200) | {"warnings": []} == task


async def test_a_task_without_a_time_is_ready(api: Api) -> None:
    assert (await submitted(api, BODY))["status"] == "READY"


async def test_a_time_in_the_past_is_kept_and_runs_now(api: Api, connection: Connection) -> None:
    task = await submitted(api, BODY | {"execute_at": "2020-01-01T02:00:00+02:00"})
    assert (task["execute_at"], task["status"]) == ("2020-01-01T00:00:00Z", "READY")
    due = await connection.fetchval("SELECT due_at FROM gnomon.task")
    assert due > datetime.now(UTC) - timedelta(minutes=1)


async def test_a_large_payload_comes_back(api: Api) -> None:
    task = await submitted(api, BODY | {"payload": "x" * 250_000})
    read = await call(api, "GET", f"{TASKS}/{task['task_id']}", 200)
    assert read["payload"] == "x" * 250_000
    page = await call(api, "GET", TASKS, 200)
    assert page["tasks"][0]["payload"] == "x" * 250_000


async def test_a_python_target(api: Api) -> None:
    target = {"type": "python", "function": "f"}
    assert (await submitted(api, {"task_type": "t", "target": target}))["target"] == target


async def test_many_submissions_share_a_commit(api: Api, connection: Connection) -> None:
    await asyncio.gather(*(submitted(api) for _ in range(64)))
    rows = await connection.fetchrow(
        "SELECT count(*) AS tasks, count(DISTINCT xmin::text) AS commits FROM gnomon.task"
    )
    assert rows is not None
    assert rows["tasks"] == 64
    assert rows["commits"] < 32


async def test_a_batch_is_stored_in_order_in_one_commit(api: Api, connection: Connection) -> None:
    tasks = [LATER | {"name": str(n)} for n in range(1000)]
    answer = await call(api, "POST", f"{TASKS}/batch", 202, {"tasks": tasks})
    assert [item["status"] for item in answer["tasks"]] == ["SCHEDULED"] * 1000
    names = await connection.fetch("SELECT id::text, name FROM gnomon.task")
    assert {row["id"]: row["name"] for row in names} == {
        item["task_id"]: str(n) for n, item in enumerate(answer["tasks"])
    }
    commits = await connection.fetchval("SELECT count(DISTINCT xmin::text) FROM gnomon.task")
    assert commits == 1


async def test_a_batch_is_all_or_none(api: Api, connection: Connection) -> None:
    tasks = [LATER, LATER | {"priority": "URGENT"}, LATER]
    problem = await call(api, "POST", f"{TASKS}/batch", 422, {"tasks": tasks})
    assert problem["errors"][0]["pointer"] == "/tasks/1/priority"
    tasks = [LATER, LATER, BODY | {"payload": "x" * 300_000}]
    problem = await call(api, "POST", f"{TASKS}/batch", 413, {"tasks": tasks})
    assert problem["errors"][0]["pointer"] == "/tasks/2/payload"
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task") == 0


@pytest.mark.parametrize("size", [0, 10_001])
async def test_a_batch_has_bounds(api: Api, size: int) -> None:
    problem = await call(api, "POST", f"{TASKS}/batch", 422, {"tasks": [BODY] * size})
    assert problem["errors"][0]["pointer"] == "/tasks"


async def test_pages(api: Api) -> None:
    tasks = [LATER | {"tags": ["odd"] if n % 2 else ["even"]} for n in range(25)]
    await call(api, "POST", f"{TASKS}/batch", 202, {"tasks": tasks})
    seen: list[str] = []
    query = {"limit": "10"}
    while True:
        page = await call(api, "GET", TASKS, 200, params=query)
        seen += [task["task_id"] for task in page["tasks"]]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert len(seen) == 25
    assert seen == sorted(seen, reverse=True)
    page = await call(api, "GET", TASKS, 200, params={"tag": "odd", "status": "SCHEDULED"})
    assert len(page["tasks"]) == 12


async def test_head_is_get_without_a_body(api: Api) -> None:
    task = await submitted(api)
    for path in (TASKS, f"{TASKS}/{task['task_id']}", "/healthz", "/api/v1/openapi.json"):
        async with api.head(path) as answer:
            assert (answer.status, await answer.read()) == (200, b"")


async def test_cancel_pause_resume(api: Api) -> None:
    path = f"{TASKS}/{(await submitted(api))['task_id']}"
    assert (await call(api, "POST", f"{path}/pause", 200))["status"] == "PAUSED"
    assert (await call(api, "POST", f"{path}/pause", 200, {}))["status"] == "PAUSED"
    assert (await call(api, "POST", f"{path}/resume", 200))["status"] == "SCHEDULED"
    await call(api, "POST", f"{path}/resume", 409)
    assert (await call(api, "POST", f"{path}/cancel", 200))["status"] == "CANCELLED"
    assert (await call(api, "POST", f"{path}/cancel", 200))["status"] == "CANCELLED"
    problem = await call(api, "POST", f"{path}/pause", 409)
    assert "CANCELLED" in problem["detail"]


async def test_cancel_of_a_running_task_needs_interrupt(api: Api, connection: Connection) -> None:
    path = f"{TASKS}/{(await submitted(api))['task_id']}"
    await put(connection, path[len(TASKS) + 1 :], "state = 1, fence = 1, attempt = 1")
    problem = await call(api, "POST", f"{path}/cancel", 409)
    assert '{"interrupt": true}' in problem["detail"]
    task = await call(api, "POST", f"{path}/cancel", 200, {"interrupt": True})
    assert (task["status"], task["cancel_requested"]) == ("RUNNING", True)
    for method, action in (("POST", "/pause"), ("POST", "/retry"), ("DELETE", "")):
        await call(api, method, f"{path}{action}", 409)
    await call(api, "PATCH", path, 409, {"name": "n"})


async def test_retry_of_a_finished_task_makes_a_new_one(api: Api) -> None:
    old = await submitted(api, LATER | {"payload": "x" * 5000, "tags": ["t"]})
    path = f"{TASKS}/{old['task_id']}"
    await call(api, "POST", f"{path}/retry", 409)
    await call(api, "POST", f"{path}/cancel", 200)
    new = await call(api, "POST", f"{path}/retry", 202)
    assert new["retry_of"] == old["task_id"]
    assert new["task_id"] != old["task_id"]
    assert (new["payload"], new["tags"], new["status"]) == (old["payload"], ["t"], "READY")
    assert await call(api, "GET", f"{TASKS}/{new['task_id']}", 200) | {"warnings": []} == new


async def test_retry_of_a_failed_task_is_due_now(api: Api, connection: Connection) -> None:
    task = await submitted(api)
    await put(connection, task["task_id"], "attempt = 1, retries_left = 1")
    path = f"{TASKS}/{task['task_id']}"
    assert (await call(api, "GET", path, 200))["status"] == "FAILED"
    again = await call(api, "POST", f"{path}/retry", 202)
    assert (again["task_id"], again["status"]) == (task["task_id"], "READY")


async def test_patch(api: Api) -> None:
    task = await submitted(api, LATER | {"name": "old", "tags": ["a"]})
    assert task.pop("warnings") == []
    path = f"{TASKS}/{task['task_id']}"
    changed = await call(
        api, "PATCH", path, 200, {"name": None, "payload": [1], "priority": "LOW", "tags": []}
    )
    assert changed == task | {"name": None, "payload": [1], "priority": "LOW", "tags": []}
    target = {
        "type": "http",
        "url": "http://127.0.0.1:8/",
        "method": "PUT",
        "headers": {"Accept": "b"},
    }
    changed = await call(
        api, "PATCH", path, 200, {"target": target, "execute_at": "2150-01-01T00:00:00Z"}
    )
    assert (changed["target"], changed["execute_at"]) == (target, "2150-01-01T00:00:00Z")
    problem = await call(api, "PATCH", path, 422, {"expires_at": "2149-01-01T00:00:00Z"})
    assert problem["errors"][0]["pointer"] == "/expires_at"
    changed = await call(api, "PATCH", path, 200, {"delay_seconds": 0})
    assert changed["status"] == "READY"
    for body in ({"task_type": "x"}, {"tags": None}, {"execute_at": "2150-01-01T00:00:00"}):
        await call(api, "PATCH", path, 422, body)


async def test_delete(api: Api) -> None:
    path = f"{TASKS}/{(await submitted(api))['task_id']}"
    async with api.delete(path) as answer:
        assert (answer.status, await answer.read()) == (204, b"")
    await call(api, "GET", path, 404)
    await call(api, "DELETE", path, 404)


async def test_executions(api: Api, connection: Connection) -> None:
    task = await submitted(api)
    path = f"{TASKS}/{task['task_id']}/executions"
    assert await call(api, "GET", path, 200) == {"executions": [], "next_cursor": None}
    await connection.execute(
        "INSERT INTO gnomon.execution (tenant_id, task_id, fence, attempt, outcome, finished_at, "
        "started_at, error, response_status, response_body, worker, traceback) VALUES ('default', "
        "$1::text::uuid, 1, 1, 1, gnomon.now(), gnomon.now(), 'HTTP 500', 500, 'oh', 'w', "
        "'at line 1')",
        task["task_id"],
    )
    (execution,) = (await call(api, "GET", path, 200))["executions"]
    assert execution.pop("started_at").endswith("Z")
    assert execution.pop("finished_at").endswith("Z")
    assert execution == {
        "attempt": 1, "outcome": "failed", "worker": "w", "error": "HTTP 500",
        "response_status": 500, "response_body": "oh", "result": None, "traceback": "at line 1",
    }  # fmt: skip
    unknown = "01890000-0000-7000-8000-000000000000"
    await call(api, "GET", f"{TASKS}/{unknown}/executions", 404)


async def tried(api: Api, connection: Connection, outcomes: list[int]) -> str:
    """The id of a task with executions of these outcomes, and one that is running."""
    task_id: str = (await submitted(api))["task_id"]
    await connection.execute(
        "INSERT INTO gnomon.execution (tenant_id, task_id, fence, attempt, outcome, finished_at) "
        "SELECT 'default', $1::text::uuid, n, n, o, gnomon.now() "
        "FROM unnest($2::smallint[]) WITH ORDINALITY AS x (o, n)",
        task_id,
        outcomes,
    )
    last = len(outcomes) + 1
    await put(connection, task_id, f"state = 1, fence = {last}, attempt = {last}")
    return task_id


async def test_executions_come_in_pages(api: Api, connection: Connection) -> None:
    path = f"{TASKS}/{await tried(api, connection, [1, 2, 1, 3, 1])}/executions"

    async def read(**chosen: str) -> list[list[int]]:
        pages: list[list[int]] = []
        cursor: dict[str, str] = {}
        while True:
            page = await call(api, "GET", path, 200, params=chosen | cursor)
            pages.append([each["attempt"] for each in page["executions"]])
            if page["next_cursor"] is None:
                return pages
            cursor = {"cursor": page["next_cursor"]}

    assert await read() == [[1, 2, 3, 4, 5, 6]]
    assert await read(limit="4") == [[1, 2, 3, 4], [5, 6]]
    assert await read(limit="3") == [[1, 2, 3], [4, 5, 6]]
    assert await read(outcome="failed", limit="2") == [[1, 3], [5]]
    assert await read(outcome="running") == [[6]]
    assert await read(outcome="succeeded") == [[]]
    for wrong, pointer in (
        ({"outcome": "FAILED"}, "/outcome"),
        ({"limit": "0"}, "/limit"),
        ({"cursor": "x"}, "/cursor"),
        ({"cursor": "AAAAAAAAAAAAAAAAAAAAAA"}, "/cursor"),
    ):
        problem = await call(api, "GET", path, 422, params=wrong)
        assert problem["errors"][0]["pointer"] == pointer


async def test_a_task_is_read_with_its_last_executions(api: Api, connection: Connection) -> None:
    path = f"{TASKS}/{await tried(api, connection, [1] * 60)}"
    plain = await call(api, "GET", path, 200)
    assert "executions" not in plain
    task = await call(api, "GET", path, 200, params={"include": "executions"})
    executions = task.pop("executions")
    assert task == plain
    assert [each["attempt"] for each in executions] == list(range(12, 62))
    assert executions[-1]["outcome"] == "running"
    problem = await call(api, "GET", path, 422, params={"include": "payload"})
    assert problem["errors"][0]["pointer"] == "/include"


async def test_health(api: Api) -> None:
    assert await call(api, "GET", "/healthz", 200) == {"status": "ok"}
    assert await call(api, "GET", "/readyz", 200) == {"status": "ready"}


async def test_the_document_is_on_a_page_that_needs_no_other_host(api: Api) -> None:
    async with api.get("/api/v1/docs") as answer:
        page = await answer.text()
        assert answer.status == 200
        assert answer.content_type == "text/html"
    assert re.findall(r"""(?:src|href|url)\s*[=(]\s*["'](.*?)["']""", page) == [
        "data:,",
        "openapi.json",
    ]
