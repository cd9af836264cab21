"""The client of webhooks on both loops: a node has uvloop where there is one."""

import asyncio
from collections.abc import Callable, Mapping

import uvloop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
