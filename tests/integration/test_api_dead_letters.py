"""`/dead-letters` over real sockets."""

from typing import TYPE_CHECKING, Any, TypeAlias

from tests.integration.api_calls import BODY, TASKS, Api, call, put, submitted

if TYPE_CHECKING:
    import asyncpg

DEAD = "/api/v1/dead-letters"
Connection: TypeAlias = "asyncpg.Connection[Any]"


async def dead(api: Api, connection: Connection, body: dict[str, Any] = BODY) -> str:
    task_id: str = (await submitted(api, body))["task_id"]
    await put(connection, task_id, "state = 4, attempt = 4, retries_left = 0, last_error = 'boom'")
    return task_id


async def test_a_dead_letter_is_listed_and_read(api: Api, connection: Connection) -> None:
    task_id = await dead(api, connection)
    alive = (await submitted(api))["task_id"]
    page = await call(api, "GET", DEAD, 200)
    assert [task["task_id"] for task in page["dead_letters"]] == [task_id]
    assert page["next_cursor"] is None
    letter = await call(api, "GET", f"{DEAD}/{task_id}", 200)
    assert (letter["status"], letter["last_error"]) == ("DEAD_LETTERED", "boom")
    assert letter["finished_at"] is not None
    await call(api, "GET", f"{DEAD}/{alive}", 404)
    for action in ("retry", "archive", "discard"):
        await call(api, "POST", f"{DEAD}/{alive}/{action}", 409)


async def test_retry_of_one(api: Api, connection: Connection) -> None:
    for path in (DEAD, TASKS):
        task_id = await dead(api, connection)
        task = await call(api, "POST", f"{path}/{task_id}/retry", 202)
        assert (task["task_id"], task["status"], task["attempt"]) == (task_id, "READY", 4)
        row = await connection.fetchrow(
            "SELECT retries_left, state FROM gnomon.task WHERE id = $1::text::uuid", task_id
        )
        assert row is not None
        assert (row["retries_left"], row["state"]) == (3, 0)


async def test_archive_and_discard(api: Api, connection: Connection) -> None:
    for action, resolution in (("archive", "archived"), ("discard", "discarded")):
        task_id = await dead(api, connection)
        for _ in range(2):
            task = await call(api, "POST", f"{DEAD}/{task_id}/{action}", 200)
            assert (task["status"], task["resolution"]) == ("DEAD_LETTERED", resolution)
        await call(api, "POST", f"{DEAD}/{task_id}/retry", 409)
        new = await call(api, "POST", f"{TASKS}/{task_id}/retry", 202)
        assert new["retry_of"] == task_id
    assert (await call(api, "GET", DEAD, 200))["dead_letters"] == []
    page = await call(api, "GET", TASKS, 200, params={"status": "DEAD_LETTERED"})
    assert len(page["tasks"]) == 2
