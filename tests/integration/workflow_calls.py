"""Runs of workflows over the API, for the tests of them."""

from typing import Any

from tests.integration.api_calls import Api, call
from tests.waiting import eventually

RUNS = "/api/v1/workflow-runs"


def node(who: str = "x", *after: str, **fields: Any) -> dict[str, Any]:
    return {
        "task_type": "echo",
        "payload": {"who": who} | fields.pop("payload", {}),
        "after": list(after),
        "retry_policy": {"max_retries": 0},
        **fields,
    }


def failing(who: str = "x", *after: str, **fields: Any) -> dict[str, Any]:
    """A node without a handler is retried for ever; one that is a dead letter after a call."""
    url = {"callback_url": "http://127.0.0.1:9/nobody"}
    found = node(who, *after, **url, **fields)
    return found | {"task_type": "hook"}


async def start(api: Api, nodes: dict[str, Any], status: int = 202, **fields: Any) -> Any:
    body = {"definition": {"nodes": nodes, **fields}}
    return await call(api, "POST", RUNS, status, body)


async def read(api: Api, run: Any) -> Any:
    return await call(api, "GET", f"{RUNS}/{run['run_id']}", 200)


async def once(api: Api, run: Any, status: str) -> Any:
    async def look() -> Any:
        found = await read(api, run)
        return found if found["status"] == status else None

    return await eventually(look)


def statuses(run: Any) -> dict[str, str]:
    return {each["node"]: each["status"] for each in run["nodes"]}
