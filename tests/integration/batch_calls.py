"""Batches over the API, for the tests of them."""

from typing import Any

from tests.integration.api_calls import TASKS, Api, call
from tests.integration.workflow_calls import node
from tests.waiting import eventually

BATCHES = "/api/v1/batches"


def task(**fields: Any) -> dict[str, Any]:
    return {each: value for each, value in node(**fields).items() if each != "after"}


def failing_task(**fields: Any) -> dict[str, Any]:
    return task(callback_url="http://127.0.0.1:9/nobody", **fields) | {"task_type": "hook"}


async def open_batch(api: Api, **fields: Any) -> Any:
    return await call(api, "POST", BATCHES, 201, fields)


async def put(api: Api, batch: Any, *tasks: dict[str, Any], status: int = 202) -> Any:
    """Put tasks into a batch, in one commit."""
    bodies = [each | {"batch_id": batch["batch_id"]} for each in tasks]
    return await call(api, "POST", f"{TASKS}/batch", status, {"tasks": bodies})


async def change(api: Api, batch: Any, what: str, status: int = 200, body: Any = None) -> Any:
    return await call(api, "POST", f"{BATCHES}/{batch['batch_id']}/{what}", status, body)


async def read(api: Api, batch: Any) -> Any:
    return await call(api, "GET", f"{BATCHES}/{batch['batch_id']}", 200)


async def once(api: Api, batch: Any, status: str) -> Any:
    async def look() -> Any:
        found = await read(api, batch)
        return found if found["status"] == status else None

    return await eventually(look)


async def task_once(api: Api, task_id: str, status: str) -> Any:
    async def look() -> Any:
        found = await call(api, "GET", f"{TASKS}/{task_id}", 200)
        return found if found["status"] == status else None

    return await eventually(look)


def counts(batch: Any) -> tuple[int, ...]:
    """total, succeeded, failed, cancelled, pending"""
    names = ("total", "succeeded", "failed", "cancelled", "pending")
    return tuple(batch["progress"][each] for each in names)
