"""Handlers by the names of those that waited in a previous database. All of them end at once."""

from typing import Any

from gnomon.sdk.app import Gnomon

app = Gnomon()


@app.task
async def echo(payload: Any) -> Any:
    return payload.get("returns")


@app.task
async def reject(payload: Any) -> Any:
    return payload.get("returns")


@app.task
async def wait_at_the_gate(payload: Any) -> Any:
    return payload.get("returns")
