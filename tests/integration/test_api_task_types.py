"""`/task-types` and the checks of payloads, over real sockets."""

import asyncio
import json
from typing import Any

import msgspec
from tests.conftest import serving
from tests.integration.api_calls import BODY, LATER, TASKS, Api, call, submitted
from tests.integration.support import Connection
from tests.waiting import eventually

from gnomon.store.ports.work.task_types import MOST_SCHEMA_BYTES, MOST_TASK_TYPES
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.tasks.task_types import PostgresTaskTypes

TYPES = "/api/v1/task-types"
CRON = "/api/v1/cron-jobs"
ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "state": {"enum": ["new", "paid"]},
        "mail": {"type": "string", "format": "email"},
        "when": {"type": "string", "format": "date"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
    },
    "required": ["id"],
    "additionalProperties": False,
    "$defs": {"line": {"type": "object", "properties": {"n": {"minimum": 1}}}},
}


async def put_type(api: Api, schema: Any, name: str = "mail", status: int = 201) -> Any:
    return await call(api, "PUT", f"{TYPES}/{name}", status, {"schema": schema})


async def in_force(api: Api, body: dict[str, Any]) -> Any:
    """The refusal of a task, once the API has heard of the schema."""

    async def refused() -> Any:
        async with api.post(TASKS, json=body) as answer:
            return await answer.json(content_type=None) if answer.status == 422 else None

    return await eventually(refused, 5.0)


async def test_a_schema_is_kept_replaced_and_forgotten(api: Api, connection: Connection) -> None:
    assert await call(api, "GET", TYPES, 200) == {"task_types": []}
    made = await put_type(api, ORDER)
    assert (made["name"], made["schema"]) == ("mail", ORDER)
    replaced = await put_type(api, {"type": "object"}, status=200)
    assert replaced["created_at"] == made["created_at"] < replaced["updated_at"]
    await put_type(api, True, name="a.b:c")
    assert await call(api, "GET", f"{TYPES}/mail", 200) == replaced
    found = (await call(api, "GET", TYPES, 200))["task_types"]
    assert [(each["name"], each["schema_bytes"]) for each in found] == [("a.b:c", 4), ("mail", 18)]
    await connection.execute("INSERT INTO gnomon.tenant (id) VALUES ('other')")
    await connection.execute("UPDATE gnomon.task_type SET tenant_id = 'other' WHERE name = 'mail'")
    for method in ("GET", "DELETE"):
        problem = await call(api, method, f"{TYPES}/mail", 404)
        assert problem["detail"] == "the task type mail has neither a schema nor defaults"
    await call(api, "DELETE", f"{TYPES}/a.b:c", 204)
    assert await call(api, "GET", TYPES, 200) == {"task_types": []}


async def test_a_payload_must_be_as_the_schema_says(api: Api) -> None:
    await put_type(api, ORDER)
    wrong = {"id": "seven", "state": "lost", "mail": "nobody", "extra": 1, "lines": [{"n": 0}]}
    problem = await in_force(api, LATER | {"payload": wrong})
    assert {each["pointer"] for each in problem["errors"]} == {
        "/payload", "/payload/id", "/payload/state", "/payload/mail", "/payload/lines/0/n",
    }  # fmt: skip
    told = {each["pointer"]: each["detail"] for each in problem["errors"]}
    assert told["/payload/id"] == (
        'the value is not of type "integer" (says the schema at /properties/id/type)'
    )
    assert "seven" not in json.dumps(problem)
    # What is missing is null.
    assert (await call(api, "POST", TASKS, 422, LATER))["errors"][0]["pointer"] == "/payload"
    await submitted(api, LATER | {"payload": {"id": 7, "lines": [{"n": 1}]}})
    await submitted(api, LATER | {"task_type": "another", "payload": wrong})
    many = {"id": 1, "lines": [{"n": 0}] * 50}
    assert len((await call(api, "POST", TASKS, 422, LATER | {"payload": many}))["errors"]) == 10


async def test_a_batch_says_which_of_its_payloads_is_wrong(api: Api) -> None:
    await put_type(api, ORDER)
    await in_force(api, LATER)
    tasks = [LATER | {"payload": {"id": n}} for n in (1, 2, "three")]
    problem = await call(api, "POST", f"{TASKS}/batch", 422, {"tasks": tasks})
    assert [each["pointer"] for each in problem["errors"]] == ["/tasks/2/payload/id"]
    await call(api, "POST", f"{TASKS}/batch", 202, {"tasks": tasks[:2]})


async def test_a_batch_does_not_take_all_the_time_there_is(api: Api) -> None:
    ways = {str(n): {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(10)}
    await put_type(
        api, {"items": {"$ref": "#/$defs/0"}, "$defs": {**ways, "10": {"type": "string"}}}
    )
    await in_force(api, LATER | {"payload": [1]})
    task = LATER | {"payload": ["a"] * 200}
    problem = await call(api, "POST", f"{TASKS}/batch", 422, {"tasks": [task] * 400})
    assert "fewer at once" in problem["detail"]
    await call(api, "POST", f"{TASKS}/batch", 202, {"tasks": [task] * 10})


async def test_changes_are_checked_and_repetitions_are_not(
    api: Api, connection: Connection
) -> None:
    old = await submitted(api, LATER | {"payload": "of yesterday"})
    await put_type(api, ORDER)
    await in_force(api, LATER)
    path = f"{TASKS}/{old['task_id']}"
    problem = await call(api, "PATCH", path, 422, {"payload": {"id": None}})
    assert [each["pointer"] for each in problem["errors"]] == ["/payload/id"]
    await call(api, "PATCH", path, 200, {"name": "what is not touched stays"})
    await call(api, "PATCH", path, 200, {"payload": {"id": 1}})
    await connection.execute("""UPDATE gnomon.task SET payload = '"of yesterday"'""")
    await call(api, "POST", f"{path}/cancel", 200)
    assert (await call(api, "POST", f"{path}/retry", 202))["payload"] == "of yesterday"


async def test_a_cron_job_is_checked_by_what_its_next_run_would_send(api: Api) -> None:
    job = {
        "task_type": "mail",
        "callback_url": BODY["callback_url"],
        "cron_expression": "0 9 * * *",
    }
    await call(api, "PUT", f"{CRON}/older", 201, job | {"payload_template": "of yesterday"})
    await put_type(api, ORDER)
    await in_force(api, LATER)
    good = job | {"payload_template": {"id": 1, "when": "{{fire_time | %Y-%m-%d}}"}}
    bad = job | {"payload_template": {"id": 1, "when": "{{fire_time}}"}}
    for method, path, status in (("POST", CRON, 201), ("PUT", f"{CRON}/nightly", 200)):
        named = {"name": "nightly"} if method == "POST" else {}
        problem = await call(api, method, path, 422, bad | named)
        assert [each["pointer"] for each in problem["errors"]] == ["/payload_template/when"]
        await call(api, method, path, status, good | named)
    path = f"{CRON}/nightly"
    await call(api, "PATCH", path, 422, {"payload_template": None})
    await call(api, "PATCH", path, 200, {"payload_template": {"id": 2}})
    older = f"{CRON}/older"
    await call(api, "PATCH", older, 200, {"cron_expression": "0 10 * * *"})
    await call(api, "POST", f"{older}/trigger", 202)


BAD_SCHEMAS: list[tuple[Any, str, str]] = [
    ({"properties": {"a": {"type": "strin"}}}, "/properties/a/type", "must be array"),
    ({"$ref": "https://example.com/s.json"}, "/$ref", "must begin with #"),
    ({"$defs": {"a": {"$ref": "file:///etc/passwd"}}}, "/$defs/a/$ref", "must begin with #"),
    ({"items": {"pattern": "(?<=a)b"}}, "/items/pattern", "look-around"),
    ({"allOf": [{"$ref": "#"}]}, "", "would never end"),
    ({"format": "e-mail"}, "/format", "not a format"),
    ({"$schema": "https://example.com/mine"}, "/$schema", "draft 4, 6, 7"),
    ({"enum": ["x" * 64 * 1024]}, "", "at most 65536"),
    (7, "", "must be an object"),
]


async def test_a_schema_that_cannot_be_used_is_refused(api: Api) -> None:
    for schema, pointer, words in BAD_SCHEMAS:
        (error,) = (await put_type(api, schema, status=422))["errors"]
        assert error["pointer"] == f"/schema{pointer}"
        assert words in error["detail"]


async def test_a_payload_nested_without_end_is_refused_and_nobody_dies(api: Api) -> None:
    """What follows every level of it would overflow the checker's stack."""
    await put_type(api, {"type": ["array", "null"], "items": {"$ref": "#"}})
    await in_force(api, LATER | {"payload": 1})
    deep = LATER | {"payload": msgspec.Raw(b"[" * 100_000 + b"]" * 100_000)}
    for path, body in ((TASKS, deep), (f"{TASKS}/batch", {"tasks": [deep]})):
        sent = msgspec.json.encode(body)
        headers = {"Content-Type": "application/json"}
        async with api.post(path, data=sent, headers=headers) as answer:
            assert answer.status == 422, await answer.text()
    await submitted(api, LATER | {"payload": [[[]]]})


async def test_no_tenant_has_more_than_so_many(
    api: Api, connection: Connection, database: Database
) -> None:
    await connection.execute(
        """
        INSERT INTO gnomon.task_type (tenant_id, name, schema)
        SELECT 'default', 'type-' || n, 'true' FROM generate_series(1, $1) AS n
        """,
        MOST_TASK_TYPES - 1,
    )
    store = PostgresTaskTypes(database)
    added = await asyncio.gather(
        *(store.put("default", f"new-{n}", b"true", None) for n in range(8)), return_exceptions=True
    )
    assert sum(not isinstance(each, BaseException) for each in added) == 1
    problem = await put_type(api, True, name="one-more", status=409)
    assert "1000 task types have a schema or defaults" in problem["detail"]
    await put_type(api, False, name="type-1", status=200)


async def test_the_schemas_of_a_tenant_have_a_size_together(
    api: Api, connection: Connection
) -> None:
    large = {"enum": ["x" * 60_000]}
    await put_type(api, large, name="first")
    await connection.execute(
        """
        INSERT INTO gnomon.task_type (tenant_id, name, schema)
        SELECT 'default', 'type-' || n, schema FROM gnomon.task_type, generate_series(1, $1) AS n
        """,
        MOST_SCHEMA_BYTES // 60_100 - 1,
    )
    problem = await put_type(api, large, name="one-more", status=409)
    assert f"at most {MOST_SCHEMA_BYTES} are kept" in problem["detail"]
    await put_type(api, large, name="type-1", status=200)
    await put_type(api, True, name="small")


async def test_a_change_is_seen_by_every_process(api: Api, database_dsn: str) -> None:
    async with serving(database_dsn) as second:
        await put_type(api, ORDER)
        await in_force(second, LATER)
        await call(second, "DELETE", f"{TYPES}/mail", 204)

        async def accepted() -> bool:
            async with api.post(TASKS, json=LATER) as answer:
                return answer.status == 202

        await eventually(accepted, 5.0)
