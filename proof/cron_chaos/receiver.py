"""Receives the calls of cron runs, and writes down when each of them began and ended.

A process of its own that knows nothing of Gnomon: `python -m proof.cron_chaos.receiver FILE`
prints where it listens, and ends when its standard input does. A call names its job, its fire and
its run in a JSON body. The query says how to answer it:

    seconds=0.5     after so long
    gate=name       once the gate was opened (`POST /open?gate=name`)
    fail=2          with 409, up to the second try: that is tried again, and no breaker counts it

A caller that hangs up ends its call.
"""

import asyncio
import json
import os
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from aiohttp import web


class Book:
    """One JSON object a line, written at once and whole."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, what: str, at: float, call: dict[str, Any]) -> None:
        os.write(self._file, json.dumps({"what": what, "at": at, **call}).encode() + b"\n")


class Answering:
    """Notes every call, and answers it as its query asks."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def receive(self, request: web.BaseRequest) -> web.Response:
        at = time.time()
        if request.path == "/open":
            self._gates[request.query["gate"]].set()
            return web.Response()
        said = json.loads(await request.read())
        attempt = int(request.headers.get("gnomon-attempt", "1"))
        call = {
            "job": said["job"],
            "fire": float(said["fire_ms"]) / 1000,
            "run": said["run"],
            "attempt": attempt,
        }
        self._book.note("began", at, call)
        try:
            await self._hold(request)
        finally:
            self._book.note("ended", time.time(), call)
        failing = attempt <= int(request.query.get("fail", "0"))
        return web.Response(status=409 if failing else 200)

    async def _hold(self, request: web.BaseRequest) -> None:
        if seconds := float(request.query.get("seconds", "0")):
            await asyncio.sleep(seconds)
        if gate := request.query.get("gate"):
            await self._gates[gate].wait()


async def serve(path: Path) -> None:
    answering = Answering(Book(path))
    server = web.Server(answering.receive, access_log=None, handler_cancellation=True)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}/", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
