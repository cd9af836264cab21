"""One key, one effect, one answer."""

import asyncio
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from tests.integration.api_calls import BODY, LATER, TASKS, Api, call, submitted

if TYPE_CHECKING:
    import asyncpg

Connection: TypeAlias = "asyncpg.Connection[Any]"


async def keyed(
    api: Api, method: str, path: str, status: int, body: Any, key: str = "k"
) -> tuple[Any, bool]:
    """The answer, and whether it was given before."""
    async with api.request(method, path, json=body, headers={"Idempotency-Key": key}) as answer:
        text = await answer.text()
        assert answer.status == status, text
        again = answer.headers.get("Idempotency-Replayed") == "true"
        return (await answer.json(content_type=None)) if text else None, again


async def test_a_repeated_submission_gets_the_first_answer(
    api: Api, connection: Connection
) -> None:
    body = LATER | {"payload": {"x": "y" * 5000}}
    first, again = await keyed(api, "POST", TASKS, 202, body)
    assert not again
    assert first["idempotency_key"] == "k"
    reordered = dict(reversed(body.items()))
    assert await keyed(api, "POST", TASKS, 202, reordered) == (first, True)
    assert await keyed(api, "POST", TASKS, 202, body, '"k"') == (first, True)
    assert await call(api, "POST", TASKS, 202, body | {"idempotency_key": "k"}) == first
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task") == 1
    kept = await connection.fetchval("SELECT answer::text FROM gnomon.idempotency")
    assert "yyy" not in kept


async def test_another_body_is_refused(api: Api) -> None:
    await keyed(api, "POST", TASKS, 202, LATER)
    problem, _ = await keyed(api, "POST", TASKS, 422, BODY)
    assert "'k'" in problem["detail"]


async def test_two_different_keys_are_refused(api: Api) -> None:
    problem, _ = await keyed(api, "POST", TASKS, 422, BODY | {"idempotency_key": "other"})
    assert problem["errors"][0]["pointer"] == "/idempotency_key"


@pytest.mark.parametrize("key", ["", '""', "x" * 256, "ü"])
async def test_a_key_that_cannot_be_used(shared_api: Api, key: str) -> None:
    await keyed(shared_api, "POST", TASKS, 422, BODY, key)


async def test_twenty_at_once_make_one_task(api: Api, connection: Connection) -> None:
    answers = await asyncio.gather(*(keyed(api, "POST", TASKS, 202, LATER) for _ in range(20)))
    assert len({answer["task_id"] for answer, _ in answers}) == 1
    assert sum(not again for _, again in answers) == 1
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task") == 1


async def test_one_bad_request_does_not_fail_its_mates(api: Api, connection: Connection) -> None:
    await keyed(api, "POST", TASKS, 202, LATER, "used")
    good = [submitted(api) for _ in range(20)]
    also_good = [keyed(api, "POST", TASKS, 202, LATER, f"k{n}") for n in range(20)]
    bad = [keyed(api, "POST", TASKS, 422, BODY, "used") for _ in range(20)]
    await asyncio.gather(*good, *bad, *also_good)
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task") == 41


async def test_a_key_that_another_process_holds_is_waited_for(
    api: Api, connection: Connection
) -> None:
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(
        "INSERT INTO gnomon.idempotency (tenant_id, key, fingerprint, answer, expires_at) "
        "VALUES ('default', 'held', '', 'null', gnomon.now() + interval '1 hour')"
    )
    waiting = [asyncio.create_task(keyed(api, "POST", TASKS, 409, LATER, "held"))]
    # Whoever has nothing to do with the key is not held up by it.
    await asyncio.gather(*(submitted(api) for _ in range(10)))
    await asyncio.gather(*(keyed(api, "POST", TASKS, 202, LATER, f"k{n}") for n in range(10)))
    ((problem, _),) = await asyncio.gather(*waiting)
    assert "still under way" in problem["detail"]
    await transaction.rollback()
    _, again = await keyed(api, "POST", TASKS, 202, LATER, "held")
    assert not again


async def test_actions_happen_once(api: Api) -> None:
    path = f"{TASKS}/{(await submitted(api))['task_id']}"
    first, again = await keyed(api, "POST", f"{path}/cancel", 200, {}, "cancel")
    assert (first["status"], again) == ("CANCELLED", False)
    assert await keyed(api, "POST", f"{path}/cancel", 200, {}, "cancel") == (first, True)
    await keyed(api, "POST", f"{path}/cancel", 422, {"interrupt": True}, "cancel")
    await keyed(api, "POST", f"{path}/retry", 422, {}, "cancel")
    made = await asyncio.gather(
        *(keyed(api, "POST", f"{path}/retry", 202, {}, "retry") for _ in range(5))
    )
    assert len({task["task_id"] for task, _ in made}) == 1
    await keyed(api, "DELETE", path, 204, None, "delete")
    assert await keyed(api, "DELETE", path, 204, None, "delete") == (None, True)


async def test_an_error_is_not_kept(api: Api, connection: Connection) -> None:
    path = f"{TASKS}/{(await submitted(api))['task_id']}"
    await keyed(api, "POST", f"{path}/resume", 409, {})
    assert await connection.fetchval("SELECT count(*) FROM gnomon.idempotency") == 0
    await keyed(api, "POST", f"{path}/pause", 200, {})


async def test_a_batch_happens_once(api: Api, connection: Connection) -> None:
    body = {"tasks": [LATER] * 3}
    first, again = await keyed(api, "POST", f"{TASKS}/batch", 202, body)
    assert not again
    assert await keyed(api, "POST", f"{TASKS}/batch", 202, body) == (first, True)
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task") == 3


async def test_keys_of_single_tasks_in_a_batch(api: Api, connection: Connection) -> None:
    single, _ = await keyed(api, "POST", TASKS, 202, LATER, "a")
    item = LATER | {"idempotency_key": "b"}
    tasks = [LATER | {"idempotency_key": "a"}, item, LATER, item]
    answer = await call(api, "POST", f"{TASKS}/batch", 202, {"tasks": tasks})
    ids = [each["task_id"] for each in answer["tasks"]]
    assert ids[0] == single["task_id"]
    assert ids[1] == ids[3]
    assert len(set(ids)) == 3
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task") == 3
    tasks = [LATER, LATER | {"idempotency_key": "a", "name": "other"}]
    problem = await call(api, "POST", f"{TASKS}/batch", 422, {"tasks": tasks})
    assert problem["errors"][0]["pointer"] == "/tasks/1/idempotency_key"
    assert await connection.fetchval("SELECT count(*) FROM gnomon.task") == 3
