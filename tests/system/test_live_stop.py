"""Processes whose pages are open stop as fast as others."""

import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import aiohttp
import pytest
from tests.system.harness import Process
from tests.waiting import eventually

pytestmark = pytest.mark.system

STREAMS = 50
STOP_SECONDS = 5.0  # that a process waits for requests which do not end


async def api_of(process: Process) -> str | None:
    """Where it serves HTTP, once it does."""
    assert process.alive, process.text()
    where = (str(event.get("where")) for event in process.events())
    return next((each for each in where if each.startswith("http")), None)


async def seconds_to_stop(process: Process, streams: int) -> float:
    """How long it takes to stop while so many streams are open. Each of them is ended in order."""
    process.start()
    try:
        url = await eventually(partial(api_of, process), 60.0)
        async with AsyncExitStack() as stack:
            opened = []
            for _ in range(streams):
                browser = await stack.enter_async_context(aiohttp.ClientSession(url))
                stream = await stack.enter_async_context(browser.get("/live?topics=tasks"))
                assert stream.status == 200
                assert await stream.content.readline() == b": open\n"
                opened.append(stream)
            began = time.monotonic()
            process.terminate()
            for stream in opened:
                await stream.content.read()  # raises where it is cut off
            assert await process.code(60) == 0
            return time.monotonic() - began
    finally:
        process.close()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("command", ["api", "up"])
async def test_open_streams_do_not_hold_up_a_stop(
    database_dsn: str, tmp_path: Path, command: str
) -> None:
    before = await seconds_to_stop(
        Process(database_dsn, tmp_path, "quiet", command, "--port", "0"), 0
    )
    watched = Process(database_dsn, tmp_path, "watched", command, "--port", "0")
    took = await seconds_to_stop(watched, STREAMS)
    assert took < before + STOP_SECONDS - 1
