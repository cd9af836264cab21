"""Whatever is sent, the answer is a problem document that says what is wrong and where."""

import asyncio
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import serving
from tests.integration.api_calls import BODY, TASKS, Api, call, submitted

from gnomon.usecases.tasks import submission_batcher

if TYPE_CHECKING:
    import asyncpg

NOBODY = "01890000-0000-7000-8000-000000000000"
HTTP = {"type": "http", "url": "http://127.0.0.1:9/"}


def without(field: str) -> dict[str, Any]:
    return {name: value for name, value in BODY.items() if name != field}


BAD_VALUES: list[tuple[dict[str, Any], str]] = [
    (without("task_type"), ""),
    # isprintable() is stricter than a line: a type may hold it, the name of a handler may not.
    (without("callback_url") | {"task_type": "a\u200bb"}, "/task_type"),
    (without("callback_url") | {"callback_method": "PUT"}, "/callback_method"),
    (BODY | {"target": HTTP}, "/target"),
    (BODY | {"task_type": ""}, "/task_type"),
    (BODY | {"task_type": 1}, "/task_type"),
    (BODY | {"task_type": "x" * 201}, "/task_type"),
    (BODY | {"task_type": "a\0b"}, "/task_type"),
    (BODY | {"name": "x" * 201}, "/name"),
    (BODY | {"name": "\0"}, "/name"),
    (BODY | {"queue": "a\0b"}, "/queue"),
    (BODY | {"delay_seconds": -1}, "/delay_seconds"),
    (BODY | {"delay_seconds": "1"}, "/delay_seconds"),
    (BODY | {"delay_seconds": 1e18}, "/delay_seconds"),
    (BODY | {"delay_seconds": 1, "execute_at": "2150-01-01T00:00:00Z"}, "/delay_seconds"),
    (BODY | {"execute_at": "2150-01-01T00:00:00"}, "/execute_at"),
    (BODY | {"execute_at": "tomorrow"}, "/execute_at"),
    (BODY | {"execute_at": "2201-01-01T00:00:00Z"}, "/execute_at"),
    (BODY | {"execute_at": "2200-01-01T00:00:00Z"}, "/execute_at"),
    (BODY | {"execute_at": "2199-12-31T23:59:59-12:00"}, "/execute_at"),
    (BODY | {"execute_at": "1971-01-01T00:00:00+14:00"}, "/execute_at"),
    (BODY | {"expires_at": "2200-01-01T01:00:00+01:00"}, "/expires_at"),
    (BODY | {"expires_at": "2199-12-31T23:59:59-00:01"}, "/expires_at"),
    (BODY | {"execute_at": "0001-01-01T00:00:00+14:00"}, "/execute_at"),
    (BODY | {"execute_at": "9999-12-31T23:59:59-14:00"}, "/execute_at"),
    (BODY | {"expires_at": "2020-01-01T00:00:00Z"}, "/expires_at"),
    (BODY | {"delay_seconds": 60, "expires_at": "2020-01-01T00:00:00Z"}, "/expires_at"),
    (BODY | {"priority": "URGENT"}, "/priority"),
    (BODY | {"priority": 1}, "/priority"),
    (BODY | {"delivery": "twice"}, "/delivery"),
    (
        BODY | {"delivery": "at_most_once", "retry_policy": {"max_retries": 1}},
        "/retry_policy/max_retries",
    ),
    (BODY | {"timeout_seconds": 0}, "/timeout_seconds"),
    (BODY | {"timeout_seconds": 86_401}, "/timeout_seconds"),
    (BODY | {"timeout_seconds": 1e-46}, "/timeout_seconds"),
    (BODY | {"timeout_seconds": 5e-324}, "/timeout_seconds"),
    (BODY | {"timeout_seconds": 0.0009}, "/timeout_seconds"),
    (BODY | {"retry_policy": {"base_seconds": 1e300}}, "/retry_policy/base_seconds"),
    (BODY | {"retry_policy": {"max_retries": -1}}, "/retry_policy/max_retries"),
    (BODY | {"retry_policy": {"max_retry": 1}}, "/retry_policy/max_retry"),
    (BODY | {"retry_policy": {"backoff": "none"}}, "/retry_policy/backoff"),
    (BODY | {"tags": ["x"] * 33}, "/tags"),
    (BODY | {"tags": ["x", "y" * 101]}, "/tags/1"),
    (BODY | {"tags": ["x", "\0"]}, "/tags/1"),
    (BODY | {"tags": "x"}, "/tags"),
    (BODY | {"idempotency_key": ""}, "/idempotency_key"),
    (BODY | {"idempotency_key": "k" * 256}, "/idempotency_key"),
    (BODY | {"idempotency_key": "\0"}, "/idempotency_key"),
    (BODY | {"callback_url": "ftp://x/"}, "/callback_url"),
    (BODY | {"callback_url": "http://"}, "/callback_url"),
    (BODY | {"callback_url": "http://x/ y"}, "/callback_url"),
    (BODY | {"callback_url": "http://u:p@x/"}, "/callback_url"),
    (BODY | {"callback_url": "http://x:99999/"}, "/callback_url"),
    (BODY | {"callback_url": "http://[::1/"}, "/callback_url"),
    (BODY | {"callback_method": "BREW"}, "/callback_method"),
    ({"task_type": "t", "callback_method": "PUT"}, "/callback_method"),
    ({"task_type": "t", "target": {"type": "ftp"}}, "/target/type"),
    ({"task_type": "t", "target": {"url": "http://x"}}, "/target"),
    ({"task_type": "t", "target": HTTP | {"headers": {"a": 1}}}, "/target/headers"),
    ({"task_type": "t", "target": HTTP | {"headers": {"a b": "c"}}}, "/target/headers"),
    ({"task_type": "t", "target": HTTP | {"url": "http://a..b/"}}, "/target/url"),
    ({"task_type": "t", "target": HTTP | {"method": "BREW"}}, "/target/method"),
    ({"task_type": "t", "target": {"type": "python", "function": "\0"}}, "/target/function"),
    (BODY | {"paylod": 1}, "/paylod"),
    (BODY | {"a/b~c": 1}, "/a~1b~0c"),
]


REMEDIES: list[tuple[dict[str, Any], str]] = [
    (BODY | {"paylod": 1}, "did you mean 'payload'"),
    (BODY | {"priority": "URGENT"}, "CRITICAL, HIGH"),
    (BODY | {"delivery": "twice"}, "at_least_once, at_most_once, exactly_once"),
    (BODY | {"delivery": "at_most_once", "retry_policy": {}}, "never tried again"),
    (BODY | {"execute_at": "2150-01-01T00:00:00"}, "2026-01-01T09:00:00Z"),
    ({"task_type": "t", "target": {"type": "ftp"}}, "http, grpc, queue, python"),
]

RAW = json.dumps(BODY)[:-1].encode()
BODIES: list[tuple[bytes, int]] = [
    (b"", 422),
    (b"{", 400),
    (b"\xff", 400),
    (b"[]", 422),
    (b"null", 422),
    (RAW + b',"payload":NaN}', 400),
    (RAW + b',"payload":[Infinity]}', 400),
    (RAW + b',"payload":"\xff"}', 422),
    (RAW + b',"payload":{"\xc3\x28":1}}', 422),
    (RAW + b',"name":"\xff"}', 400),
    (RAW + b',"name":"\\ud800"}', 400),
    (RAW + b',"payload":"\\ud800"}', 400),
    (RAW + b',"payload":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 422),
    (RAW + b',"payload":' + b'{"a":' * 40_000 + b"1" + b"}" * 40_000 + b"}", 422),
    (RAW + b',"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 422),
    (RAW + b',"delay_seconds":1e999}', 422),
    (RAW + b',"delay_seconds":' + b"9" * 5000 + b"}", 422),
    (RAW + b',"payload":' + b"9" * 4000 + b"}", 202),
    (RAW + b',"payload":1e999}', 202),
    (RAW + b',"payload":' + b"[" * 500 + b"]" * 500 + b"}", 202),
    (RAW + b',"payload":{"a":"\\u0000"}}', 202),
    (RAW + b',"payload":"' + b"x" * 262_145 + b'"}', 413),
    (b"x" * 330_000, 413),
    (b"x" * 30_000_000, 413),
]

MEDIA_TYPES = [
    ("application/json", 202),
    ("application/json; charset=utf-8", 202),
    ("APPLICATION/JSON", 202),
    ("application/merge-patch+json", 202),
    ("", 415),
    ("text/plain", 415),
    ("application/x-www-form-urlencoded", 415),
]

QUERIES = [
    ("limit=0", "/limit"),
    ("limit=501", "/limit"),
    ("limit=ten", "/limit"),
    ("limit=1&limit=2", "/limit"),
    ("status=DONE", "/status"),
    ("priority=2", "/priority"),
    ("cursor=!", "/cursor"),
    ("cursor=AAAA", "/cursor"),
    ("cursor=%C3%A9", "/cursor"),
    ("cron_job_id=1", "/cron_job_id"),
    ("due_after=2026-01-01T00:00:00", "/due_after"),
    ("due_before=0001-01-01T00:00:00Z", "/due_before"),
    ("tag=%00", "/tag"),
    ("task_type=", "/task_type"),
    ("stauts=READY", "/stauts"),
]

IDS = [NOBODY, "1", "x" * 36, "%00", "{" + NOBODY[1:-1] + "}", "é"]


async def test_a_value_that_cannot_be_used_is_named(api: Api) -> None:
    for body, pointer in BAD_VALUES:
        problem = await call(api, "POST", TASKS, 422, body)
        assert problem["status"] == 422
        assert problem["type"] == "urn:gnomon:problem:invalid"
        assert problem["title"]
        assert problem["errors"][0]["pointer"] == pointer, problem


async def test_a_problem_says_what_would_be_right(api: Api) -> None:
    for body, words in REMEDIES:
        assert words in (await call(api, "POST", TASKS, 422, body))["detail"]


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_body_that_cannot_be_read(api: Api, key: str | None) -> None:
    headers = {"Content-Type": "application/json"}
    for number, (body, status) in enumerate(BODIES):
        if key is not None:
            headers["Idempotency-Key"] = f"{key}{number}"
        await call(api, "POST", TASKS, status, data=io.BytesIO(body), headers=headers)


async def test_a_malformed_body_is_told_where(api: Api) -> None:
    problem = await call(
        api,
        "POST",
        TASKS,
        400,
        data=b'{\n  "task_type": oops}',
        headers={"Content-Type": "application/json"},
    )
    assert "line 2, column 16" in problem["detail"]


async def test_the_batch_limit_is_its_own(database_dsn: str) -> None:
    async with serving(database_dsn, api_max_batch_bytes=1000) as api:
        body = {"tasks": [BODY] * 30}
        await call(api, "POST", f"{TASKS}/batch", 413, body)
        await call(api, "POST", f"{TASKS}/batch", 202, {"tasks": [BODY] * 2})


async def test_media_types(api: Api) -> None:
    body = json.dumps(BODY).encode()
    for sent, status in MEDIA_TYPES:
        await call(api, "POST", TASKS, status, data=body, headers={"Content-Type": sent})


async def test_a_chunked_body_has_the_same_limit(api: Api) -> None:
    async def chunks() -> Any:
        for _ in range(40):
            yield b"x" * 10_000

    json_type = {"Content-Type": "application/json"}
    await call(api, "POST", TASKS, 413, data=chunks(), headers=json_type)


async def test_a_query_that_cannot_be_used(api: Api) -> None:
    for query, pointer in QUERIES:
        problem = await call(api, "GET", f"{TASKS}?{query}", 422)
        assert problem["errors"][0]["pointer"] == pointer, problem


async def test_an_unknown_parameter_of_a_single_task(api: Api) -> None:
    task = await submitted(api)
    for path in ("", "/executions"):
        await call(api, "GET", f"{TASKS}/{task['task_id']}{path}?x=1", 422)


async def test_an_id_that_nobody_has(api: Api) -> None:
    for task_id in IDS:
        path = f"{TASKS}/{task_id}"
        await call(api, "GET", path, 404)
        await call(api, "GET", f"{path}/executions", 404)
        await call(api, "DELETE", path, 404)
        await call(api, "PATCH", path, 404, {"name": "x"})
        for action in ("cancel", "pause", "resume", "retry"):
            await call(api, "POST", f"{path}/{action}", 404)
        for action in ("retry", "archive", "discard"):
            await call(api, "POST", f"/api/v1/dead-letters/{task_id}/{action}", 404)


async def test_a_mistake_of_ours_is_not_shown(
    api: Api, connection: "asyncpg.Connection[Any]"
) -> None:
    await connection.execute("DROP TABLE gnomon.task CASCADE")
    for method, body in (("GET", None), ("POST", BODY)):
        problem = await call(api, method, TASKS, 500, body)
        assert "gnomon.task" not in json.dumps(problem)


async def test_too_much_at_once_is_refused(
    api: Api, connection: "asyncpg.Connection[Any]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission_batcher, "MOST_WAITING", 5)
    async with connection.transaction():
        await connection.execute("LOCK TABLE gnomon.task IN EXCLUSIVE MODE")
        answers = [asyncio.create_task(api.post(TASKS, json=BODY)) for _ in range(30)]
        refused, _ = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
        answer = refused.pop().result()
        assert answer.status == 429
        assert answer.headers["Retry-After"]
    statuses = [(await answer).status for answer in answers]
    assert set(statuses) == {202, 429}
    stored = await connection.fetchval("SELECT count(*) FROM gnomon.task")
    assert stored == statuses.count(202)


async def test_paths_and_methods(api: Api) -> None:
    await call(api, "GET", "/nope", 404)
    await call(api, "GET", "/api/v1", 404)
    await call(api, "PUT", TASKS, 405)
    await call(api, "POST", "/healthz", 405)
    async with api.put(TASKS) as answer:
        assert {"GET", "HEAD", "POST"} <= set(answer.headers["Allow"].split(", "))


async def test_an_action_takes_no_unknown_field(api: Api) -> None:
    path = f"{TASKS}/{(await submitted(api))['task_id']}"
    await call(api, "POST", f"{path}/pause", 422, {"reason": "x"})
    problem = await call(api, "POST", f"{path}/cancel", 422, {"interupt": True})
    assert "did you mean 'interrupt'" in problem["detail"]
