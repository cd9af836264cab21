"""Every string that comes in, at its longest and strangest, through every chore of a node."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec
from msgspec import inspect
from tests.integration.nodes import call_of, running_node
from tests.integration.support import Connection, database_now, end_of, key_of, store
from tests.waiting import eventually

from gnomon.api.admin.key_documents import CreateKey
from gnomon.api.admin.limiters import PutLimiter
from gnomon.api.admin.task_types import PutTaskType
from gnomon.cli.admin.checks.troubles import chores as troubles_seen
from gnomon.store.postgres.database import Database
from gnomon.usecases.cron.cron_requests import CreateCronJob
from gnomon.usecases.tasks.task_requests import SubmitTask

LONG = 5000  # where the schema bounds nothing
STRANGE = {
    "NUL": "\0",
    "half a pair": "\ud800",
    "control": "\x01\x1b\x7f\x85",
    "bidi": "\u202e\u2066",
    "four bytes": "\U0001f480",
    "lines": "\n\r\t\u2028",
    "SQL": "'\";--\\%_",
    "JSON": '{"\\u0000":[]}',
    "letters": "ÿĀ",
}
ECHO = {"type": "python", "function": "echo"}
PAYLOAD = rb'{"who": "fuzz", "\u0000": "\u0000", "half": "\ud800", "k": "\ud83d\udc80\u0001"}'
WELL_FORMED = rb'{"who": "fuzz", "\u0000": "\u0000\uffff", "k": "{\"\\u0000\":1}"}'
# Each body as it is accepted, with what its strange fields are put into.
BODIES: list[tuple[type, str, str, dict[str, Any]]] = [
    (SubmitTask, "POST", "/tasks", {"task_type": "t", "target": ECHO}),
    (
        CreateCronJob,
        "POST",
        "/cron-jobs",
        {"task_type": "t", "target": ECHO, "interval_seconds": 1, "max_runs": 1}
        | {"sla_seconds": 0.001},
    ),
    (PutLimiter, "PUT", "/limiters/{name}", {"concurrency": 5}),
    (PutTaskType, "PUT", "/task-types/{name}", {"schema": {"type": ["object", "null"]}}),
    (CreateKey, "POST", "/keys", {"name": "key", "roles": ["read"]}),
]


def string_fields(body: type) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """The places of all strings in a body, and the longest that they may be."""
    kind = inspect.type_info(body)
    assert isinstance(kind, inspect.StructType)
    for field in kind.fields:
        yield from _strings(field.type, (field.encode_name,))


def _strings(kind: inspect.Type, at: tuple[str | int, ...]) -> Iterator[tuple[Any, int]]:
    match kind:
        case inspect.Metadata(inner):
            yield from _strings(inner, at)
        case inspect.UnionType(types):
            for each in types:
                yield from _strings(each, at)
        case inspect.StrType(max_length=most):
            yield at, most or LONG
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            yield from _strings(item, (*at, 0))


def put(body: dict[str, Any], at: tuple[str | int, ...], text: str) -> dict[str, Any]:
    name, *rest = at
    return body | {str(name): [text] if rest else text}


def texts(most: int) -> Iterator[str]:
    for strange in STRANGE.values():
        yield strange
        yield (strange * most)[:most]
        yield "a" + (strange * most)[: most - 2] + "z"


async def told(answer: aiohttp.ClientResponse) -> int:
    text = await answer.text()
    assert answer.status < 500, (answer.url, text)
    return answer.status


async def send_all(api: aiohttp.ClientSession) -> int:
    """Everything to everywhere; gives how many were accepted."""
    accepted = number = 0
    for body, method, path, base in BODIES:
        assert any(True for _ in string_fields(body)) or body is PutTaskType
        for at, most in string_fields(body):
            for text in texts(most):
                number += 1
                named = base | ({"name": f"job {number}"} if body is CreateCronJob else {})
                sent = json.dumps(put(named, at, text))
                url = "/api/v1" + path.format(name=f"n{number}")
                async with api.request(method, url, data=sent, headers=JSON) as answer:
                    accepted += await told(answer) < 300
        if "{name}" in path:
            for text in texts(200):
                name = quote(text.encode(errors="replace"), safe="")
                url = f"/api/v1{path.format(name=name)}"
                async with api.request(method, url, json=base) as answer:
                    accepted += await told(answer) < 300
    return accepted


JSON = {"content-type": "application/json"}


async def send_payloads(api: aiohttp.ClientSession) -> None:
    """Both are kept as they were written, if that is JSON that can be read."""
    for payload in (PAYLOAD, WELL_FORMED):
        task = (
            b'{"task_type": "t", "target": {"type": "python", "function": "echo"}, "payload": %s}'
        )
        async with api.post("/api/v1/tasks", data=task % payload, headers=JSON) as answer:
            assert (await told(answer) == 202) is (payload is WELL_FORMED)
        job = {"name": f"t {len(payload)}", "task_type": "t", "target": ECHO, "sla_seconds": 0.001}
        job |= {"interval_seconds": 1, "max_runs": 1, "payload_template": "HERE"}
        sent = json.dumps(job).encode().replace(b'"HERE"', payload)
        async with api.post("/api/v1/cron-jobs", data=sent, headers=JSON) as answer:
            assert (await told(answer) == 201) is (payload is WELL_FORMED)


async def test_a_node_outlives_all_that_the_api_accepts(
    api: aiohttp.ClientSession, database: Database, connection: Connection, database_dsn: str
) -> None:
    limiter = {"concurrency": 1000, "rate": 100000, "key": "/k"}
    async with api.put("/api/v1/limiters/keyed", json=limiter) as answer:
        assert await told(answer) < 300
    async with running_node(database_dsn, node_slots=50):
        assert await send_all(api) > 100
        await send_payloads(api)

        async def settled() -> bool:
            waiting = (
                "SELECT count(*) FROM gnomon.task WHERE state = 1 OR state = 0 AND attempt = 0"
            )
            planned = "SELECT count(*) FROM gnomon.cron_job WHERE next_fire_at IS NOT NULL"
            watched = "SELECT count(*) FROM gnomon.occurrence WHERE sla_at IS NOT NULL"
            return not any([await connection.fetchval(q) for q in (waiting, planned, watched)])

        await eventually(settled, 60.0)
    async with running_node(database_dsn):  # and on what it left behind
        now = await database_now(connection)
        _, new = call_of(now, "echo", tenant_id="innocent")
        await store(database, new)
        assert (await end_of(connection, key_of(new)))["state"] == 10
        assert [check.detail for check in await troubles_seen(connection)] == ["none fails"]
    for path in ("tasks", "cron-jobs", "events", "dead-letters", "limiters", "task-types"):
        async with api.get(f"/api/v1/{path}") as answer:
            assert await told(answer) == 200
    async with api.get("/api/v1/tasks?limit=500") as answer:
        for task in msgspec.json.decode(await answer.read())["tasks"][::10]:
            async with api.get(f"/api/v1/tasks/{task['task_id']}/explain") as explained:
                assert await told(explained) == 200
