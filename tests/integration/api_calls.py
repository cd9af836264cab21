"""Calls of the API, for the tests of it."""

from typing import TYPE_CHECKING, Any

import aiohttp
from yarl import URL

if TYPE_CHECKING:
    import asyncpg

TASKS = "/api/v1/tasks"
BODY: dict[str, Any] = {"task_type": "mail", "callback_url": "http://127.0.0.1:9/hook"}
LATER = BODY | {"delay_seconds": 3600}
Api = aiohttp.ClientSession


async def call(
    api: Api, method: str, path: str | URL, status: int, body: Any = None, **options: Any
) -> Any:
    """The decoded answer, once its status is the expected one."""
    if body is not None:
        options["json"] = body
    async with api.request(method, path, **options) as answer:
        text = await answer.text()
        assert answer.status == status, text
        kind = "application/problem+json" if status >= 400 else "application/json"
        if text:
            assert answer.content_type == kind
            return await answer.json(content_type=None)
        return None


async def submitted(api: Api, body: dict[str, Any] = LATER) -> Any:
    return await call(api, "POST", TASKS, 202, body)


async def put(connection: "asyncpg.Connection[Any]", task_id: str, assignments: str) -> None:
    """Bring a live task into a state that only the engine can."""
    await connection.execute(
        f"UPDATE gnomon.task SET {assignments} WHERE id = $1::text::uuid", task_id
    )
