"""`/limiters` over real sockets: kept, changed, shown, and found again on tasks."""

from typing import Any

import msgspec
from tests.integration.api_calls import BODY, LATER, TASKS, Api, call, submitted
from tests.integration.nodes import running_node
from tests.integration.support import Connection
from tests.waiting import eventually

from gnomon.limits.limiter import MOST_LIMITERS

LIMITERS = "/api/v1/limiters"
CRON = "/api/v1/cron-jobs"


async def put_limiter(api: Api, name: str, status: int = 201, **limiter: Any) -> Any:
    return await call(api, "PUT", f"{LIMITERS}/{name}", status, limiter)


async def keys_of(connection: Connection, task_id: str) -> Any:
    text = await connection.fetchval("SELECT limit_keys FROM gnomon.task WHERE id = $1", task_id)
    return None if text is None else msgspec.json.decode(text)


async def test_a_limiter_is_kept_replaced_and_removed(api: Api, connection: Connection) -> None:
    assert await call(api, "GET", LIMITERS, 200) == {"limiters": []}
    made = await put_limiter(api, "mail", concurrency=5, task_type="email.send")
    assert (made["concurrency"], made["rate"], made["running"]) == (5, None, 0)
    changed = await put_limiter(api, "mail", 200, rate=100, per_seconds=60, key="/to/0")
    assert (changed["concurrency"], changed["rate"], changed["key"]) == (None, 100, "/to/0")
    assert changed["keys"] == []
    assert changed["created_at"] == made["created_at"] < changed["updated_at"]
    await put_limiter(api, "a.b:c", concurrency=0)
    assert await call(api, "GET", f"{LIMITERS}/mail", 200) == changed
    names = [each["name"] for each in (await call(api, "GET", LIMITERS, 200))["limiters"]]
    assert names == ["a.b:c", "mail"]

    await connection.execute("INSERT INTO gnomon.tenant (id) VALUES ('other')")
    await connection.execute("UPDATE gnomon.limiter SET tenant_id = 'other' WHERE name = 'mail'")
    for method in ("GET", "DELETE"):
        problem = await call(api, method, f"{LIMITERS}/mail", 404)
        assert problem["detail"] == "there is no limiter mail"
    await call(api, "DELETE", f"{LIMITERS}/a.b:c", 204)
    assert await call(api, "GET", LIMITERS, 200) == {"limiters": []}


async def test_what_cannot_limit_is_refused(api: Api, connection: Connection) -> None:
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("mail", {}, "/concurrency"),
        ("mail", {"concurrency": -1}, "/concurrency"),
        ("mail", {"rate": 5, "per_seconds": 0.1}, "/per_seconds"),
        ("mail", {"rate": 5, "key": "customer"}, "/key"),
        ("mail", {"rate": 5, "key": "/a~2b"}, "/key"),
        ("mail", {"rate": 5, "queue": "a\0b"}, "/queue"),
        ("mail", {"rat": 5}, "/rat"),
        ("-mail", {"rate": 5}, "/name"),
        ("executions_per_minute", {"rate": 5}, "/name"),
    ]
    for name, limiter, pointer in wrong:
        problem = await call(api, "PUT", f"{LIMITERS}/{name}", 422, limiter)
        assert problem["errors"][0]["pointer"] == pointer, (name, limiter)
    await connection.execute(
        "INSERT INTO gnomon.limiter (tenant_id, name, rate) "
        "SELECT 'default', 'n' || n, 1 FROM generate_series(1, $1) AS n",
        MOST_LIMITERS,
    )
    problem = await put_limiter(api, "one-more", 409, rate=1)
    assert "the most that may be" in problem["detail"]
    await put_limiter(api, "n1", 200, rate=2)


async def test_keys_are_kept_on_tasks(api: Api, connection: Connection) -> None:
    await put_limiter(api, "each", key="/who", concurrency=2)
    await put_limiter(api, "of-queue", key="/what", queue="slow", concurrency=2)
    body = LATER | {"payload": {"who": "ann", "what": 7}}

    async def heard() -> Any:
        made = (await submitted(api, body | {"queue": "slow"}))["task_id"]
        return made if len(await keys_of(connection, made) or ()) == 2 else None

    task = await eventually(heard)
    assert await keys_of(connection, task) == {"each": "ann", "of-queue": "7"}
    batch = await call(api, "POST", f"{TASKS}/batch", 202, {"tasks": [body]})
    assert await keys_of(connection, batch["tasks"][0]["task_id"]) == {"each": "ann"}

    flow = await connection.fetchval("SELECT flow FROM gnomon.task WHERE id = $1", task)
    await call(api, "PATCH", f"{TASKS}/{task}", 200, {"payload": {"who": "bob"}})
    assert await keys_of(connection, task) == {"each": "bob", "of-queue": ""}
    assert flow != await connection.fetchval("SELECT flow FROM gnomon.task WHERE id = $1", task)
    await call(api, "PATCH", f"{TASKS}/{task}", 200, {"queue": None})
    assert await keys_of(connection, task) == {"each": "bob"}

    await call(api, "POST", f"{TASKS}/{task}/cancel", 200)
    again = await call(api, "POST", f"{TASKS}/{task}/retry", 202)
    assert await keys_of(connection, again["task_id"]) == {"each": "bob"}

    job = {
        "name": "nightly", "cron_expression": "0 0 1 1 *", "task_type": "t",
        "payload_template": {"who": "{{job_name}}"}, "callback_url": "http://127.0.0.1:1/",
    }  # fmt: skip
    await call(api, "POST", CRON, 201, job)
    run = await call(api, "POST", f"{CRON}/nightly/trigger", 202)
    assert await keys_of(connection, run["run_id"]) == {"each": "nightly"}


async def test_why_a_task_waits_for_a_limit(
    api: Api, connection: Connection, database_dsn: str
) -> None:
    await put_limiter(api, "none", concurrency=0)
    await put_limiter(api, "each", key="/who", concurrency=2)
    async with running_node(database_dsn):
        task = (await submitted(api, BODY))["task_id"]

        async def told() -> str | None:
            answer = await call(api, "GET", f"{TASKS}/{task}/explain", 200)
            summary: str = answer["summary"]
            return summary if "limiter" in summary else None

        assert await eventually(told) == (
            "It is due, but limiter 'none' is at its limit of 0 (0 running)."
        )
        # What runs is counted by what it is, whoever holds permits.
        await connection.execute(
            "UPDATE gnomon.task SET state = 1, node = (SELECT incarnation FROM gnomon.node), "
            """limit_keys = '{"each": "ann"}', run_until = now() + interval '1 min' """
        )
        use = await call(api, "GET", f"{LIMITERS}/each", 200)
        assert use["running"] == 1
        none = {"count": 0, "capped": False}
        assert use["keys"] == [{"key": "ann", "running": 1, "started": 0, "waiting": none}]


async def test_a_limiter_tells_how_many_due_tasks_wait_for_it(
    api: Api, connection: Connection
) -> None:
    await put_limiter(api, "mail", task_type="mail", concurrency=0)
    await put_limiter(api, "each", key="/who", concurrency=2)
    await connection.execute(
        """
        INSERT INTO gnomon.task (tenant_id, id, due_at, task_type, target, limit_keys)
        SELECT 'default', overlay(gen_random_uuid()::text PLACING '7' FROM 15)::uuid,
               gnomon.now() + due, type, '{}', keys
        FROM (VALUES
            (interval '-1 s', 'mail', '{"each": "ann"}', 3),
            (interval '-1 s', 'other', '{"each": "bob"}', 2),
            (interval '1 h', 'mail', '{"each": "ann"}', 9)
        ) AS t (due, type, keys, number), generate_series(1, number)
        """
    )
    listed = (await call(api, "GET", LIMITERS, 200))["limiters"]
    assert {each["name"]: each["waiting"]["count"] for each in listed} == {"mail": 3, "each": 5}
    one = await call(api, "GET", f"{LIMITERS}/each", 200)
    assert [(key["key"], key["waiting"]["count"]) for key in one["keys"]] == [
        ("ann", 3),
        ("bob", 2),
    ]


async def test_starts_count_for_as_long_as_their_own_limiter_says(
    api: Api, connection: Connection
) -> None:
    for name, seconds in (("short", 5), ("long", 3600)):
        await put_limiter(api, name, rate=100, per_seconds=seconds)
    # Some until now, some that were over a minute ago.
    await connection.execute(
        """
        WITH bucket AS (
            INSERT INTO gnomon.limit_bucket (tenant_id, limiter, key)
            SELECT 'default', name, '' FROM unnest(ARRAY['short', 'long', 'gone']) AS name
            RETURNING id
        )
        INSERT INTO gnomon.limit_window (bucket, until, starts)
        SELECT id, gnomon.now() - make_interval(secs => ago), starts
        FROM bucket, (VALUES (-60, 2), (70, 40)) AS w (ago, starts)
        """
    )
    started = {"short": 2, "long": 42}
    for name, count in started.items():
        assert (await call(api, "GET", f"{LIMITERS}/{name}", 200))["started"] == count
    listed = (await call(api, "GET", LIMITERS, 200))["limiters"]
    assert {each["name"]: each["started"] for each in listed} == started
