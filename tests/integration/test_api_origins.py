"""Correlation ids and trace contexts of requests: kept with their tasks, and answered."""

import pytest
from tests.integration.api_calls import LATER, TASKS, Api, call, put, submitted
from tests.integration.support import Connection
from tests.unit.model.test_origin import PARENT, TRACE


async def test_the_id_of_a_request_is_kept_with_its_task_and_answered(api: Api) -> None:
    headers = {"X-Request-ID": "order-7", "traceparent": PARENT, "tracestate": "a=1,b=2"}
    async with api.post(TASKS, json=LATER, headers=headers) as answer:
        assert answer.headers["x-request-id"] == "order-7"
        task = await answer.json()
    read = await call(api, "GET", f"{TASKS}/{task['task_id']}", 200)
    for each in (task, read):
        assert (each["correlation_id"], each["trace_id"]) == ("order-7", TRACE)


async def test_the_body_comes_before_the_header(api: Api) -> None:
    body = LATER | {"correlation_id": "mine"}
    async with api.post(TASKS, json=body, headers={"x-request-id": "theirs"}) as answer:
        assert answer.headers["x-request-id"] == "theirs"
        assert (await answer.json())["correlation_id"] == "mine"


async def test_a_task_without_one_has_its_own_id_and_stores_nothing(
    api: Api, connection: Connection
) -> None:
    unsampled = PARENT.removesuffix("01") + "00"
    async with api.post(TASKS, json=LATER, headers={"traceparent": unsampled}) as answer:
        first = answer.headers["x-request-id"]
        task = await answer.json()
    async with api.get(TASKS) as answer:
        assert answer.headers["x-request-id"] not in ("", first)  # each request has its own
    assert (task["correlation_id"], task["trace_id"]) == (task["task_id"], None)
    assert await connection.fetchval("SELECT origin FROM gnomon.task") is None


@pytest.mark.parametrize("hostile", ["a b", "x" * 129, "ü", "a\tb"])
async def test_a_header_that_cannot_be_used_is_as_good_as_none(api: Api, hostile: str) -> None:
    async with api.post(TASKS, json=LATER, headers={"x-request-id": hostile}) as answer:
        assert answer.status == 202
        assert answer.headers["x-request-id"] != hostile
        task = await answer.json()
    assert task["correlation_id"] == task["task_id"]


@pytest.mark.parametrize("hostile", ["", "a b", "x" * 129, "a\n", "a\r\nset-cookie: b", "ü", "\0"])
async def test_a_body_with_one_that_cannot_be_used_is_refused(
    shared_api: Api, hostile: str
) -> None:
    problem = await call(shared_api, "POST", TASKS, 422, LATER | {"correlation_id": hostile})
    assert problem["errors"][0]["pointer"] == "/correlation_id"
    batch = {"tasks": [LATER], "correlation_id": hostile}
    await call(shared_api, "POST", f"{TASKS}/batch", 422, batch)


async def test_a_batch_has_one_for_all_but_for_tasks_with_their_own(api: Api) -> None:
    batch = {"tasks": [LATER, LATER | {"correlation_id": "own"}], "correlation_id": "all"}
    made = await call(api, "POST", f"{TASKS}/batch", 202, batch, headers={"traceparent": PARENT})
    read = [await call(api, "GET", f"{TASKS}/{t['task_id']}", 200) for t in made["tasks"]]
    assert [each["correlation_id"] for each in read] == ["all", "own"]
    assert [each["trace_id"] for each in read] == [TRACE, TRACE]


async def test_a_repeated_request_may_have_another(api: Api) -> None:
    keyed = LATER | {"idempotency_key": "k"}
    first = await submitted(api, keyed | {"correlation_id": "one"})
    again = await submitted(api, keyed | {"correlation_id": "two"})
    assert (again["task_id"], again["correlation_id"]) == (first["task_id"], "one")


async def test_a_task_that_is_repeated_keeps_it(api: Api, connection: Connection) -> None:
    given = await submitted(api, LATER | {"correlation_id": "order-7"})
    plain = await submitted(api)
    for task in (given, plain):
        await call(api, "POST", f"{TASKS}/{task['task_id']}/cancel", 200, {})
        new = await call(api, "POST", f"{TASKS}/{task['task_id']}/retry", 202, {})
        assert new["retry_of"] == task["task_id"]
        assert new["correlation_id"] == task["correlation_id"]
    dead = await submitted(api, LATER | {"correlation_id": "dead"})
    await put(connection, dead["task_id"], "state = 4, attempt = 1")
    driven = await call(api, "POST", f"{TASKS}/{dead['task_id']}/retry", 202, {})
    assert (driven["task_id"], driven["correlation_id"]) == (dead["task_id"], "dead")


async def test_an_origin_that_cannot_be_read_is_none(api: Api, connection: Connection) -> None:
    task = await submitted(api, LATER | {"correlation_id": "order-7"})
    await put(connection, task["task_id"], "origin = '[1, 2]'")
    read = await call(api, "GET", f"{TASKS}/{task['task_id']}", 200)
    assert (read["correlation_id"], read["trace_id"]) == (task["task_id"], None)
