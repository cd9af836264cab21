"""A program that submits from a generator needs the memory of one batch, however many there are."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.commands import clean_environment

SUBMIT = """
import resource
from tests.integration.shop import app, send_email

later = send_email.options(delay="1h")

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

def submit(number):
    assert app.submit_many_sync(later.prepare(f"u_{n}") for n in range(number)) == number
    return peak()

print(submit(20_000), submit(200_000))
"""
_RECEIPT = b'{"task_id":"019a0000-0000-7000-8000-000000000000","status":"SCHEDULED"}'


@asynccontextmanager
async def accepting() -> AsyncIterator[str]:
    """An API that accepts every batch, and keeps nothing: what is measured is the submitter."""

    async def accept(request: web.Request) -> web.Response:
        number = (await request.read()).count(b'"task_type"')
        body = b'{"tasks":[' + b",".join([_RECEIPT] * number) + b"]}"
        return web.Response(body=body, status=202, content_type="application/json")

    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/api/v1/tasks/batch", accept)
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


async def test_memory_does_not_grow_with_the_number_of_tasks() -> None:
    async with accepting() as url:
        done = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SUBMIT,
            env=clean_environment({"GNOMON_URL": url}),
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        printed, _ = await done.communicate()
    found = re.fullmatch(r"(\d+) (\d+)\n", printed.decode())
    assert found is not None, printed
    few, many = map(int, found.groups())
    assert many - few < 8, f"{few} MB after 20 000 tasks, {many} MB after 200 000"
