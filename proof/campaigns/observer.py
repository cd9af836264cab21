"""Receives the webhooks of a campaign, and writes down every call: a process of its own that knows
nothing of Gnomon.

`python -m proof.campaigns.observer <folder> <parent>` says in a line of JSON where it listens,
and ends with its parent. What a call is to lead to is in its body:

    n         the number of the task
    seconds   that it takes
    fails     so many tries are answered with 500
    mode      exactly_once: the call is to have an effect, at a fenced sink

The sink applies an effect once for each run, and refuses whoever comes with a fence that is lower
than one it has seen.
"""

import asyncio
import ctypes
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import msgspec
from aiohttp import web
from proof.campaigns.book import Book, now
from proof.campaigns.history import Call, Effect

_PR_SET_PDEATHSIG = 1


class Asked(msgspec.Struct):
    """The body of a call."""

    n: int
    seconds: float = 0.0
    fails: int = 0
    mode: str = ""


class Sink:
    """Where effects go."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._applied: set[str] = set()
        self._fences: dict[str, int] = {}

    def see(self, run_id: str, fence: int) -> None:
        self._fences[run_id] = max(fence, self._fences.get(run_id, 0))

    def apply(self, n: int, run_id: str, fence: int) -> bool:
        """False where it is refused: another try has been seen since."""
        if fence < self._fences[run_id]:
            return False
        if run_id not in self._applied:
            self._applied.add(run_id)
            self._book.note(Effect(n, run_id, fence, now()))
        return True


class Observer:
    """Notes each call when it begins and when it ends, and answers as its body asks."""

    def __init__(self, folder: Path) -> None:
        self._book = Book(folder / "calls-observer.jsonl")
        self._sink = Sink(Book(folder / "effects-observer.jsonl"))
        self._failed: Counter[int] = Counter()  # tries that were answered so; attempts may lie

    async def receive(self, request: web.BaseRequest) -> web.Response:
        began_at = now()
        asked = msgspec.json.decode(await request.read(), type=Asked)
        call = Call(
            n=asked.n,
            run_id=request.headers["webhook-id"],
            attempt=int(request.headers["gnomon-attempt"]),
            fence=int(request.headers["gnomon-fence"]),
            began_at=began_at,
        )
        self._book.note(call)
        self._sink.see(call.run_id, call.fence)
        try:
            await asyncio.sleep(asked.seconds)
        except asyncio.CancelledError:
            self._book.note(msgspec.structs.replace(call, ended_at=now(), hung_up=True))
            raise
        status = self._answer(asked, call)
        # Before it is answered: nobody can have heard of a success that is not written here.
        self._book.note(msgspec.structs.replace(call, ended_at=now(), succeeded=status == 200))
        return web.Response(status=status)

    def _answer(self, asked: Asked, call: Call) -> int:
        if self._failed[asked.n] < asked.fails:
            self._failed[asked.n] += 1
            return 500
        if asked.mode == "exactly_once" and not self._sink.apply(asked.n, call.run_id, call.fence):
            return 409
        return 200


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


async def serve(folder: Path) -> None:
    observer = Observer(folder)
    server = web.Server(observer.receive, access_log=None, handler_cancellation=True)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    said = {"event": "observer started", "url": url, "where": url}
    print(msgspec.json.encode(said).decode(), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    die_with(int(sys.argv[2]))
    asyncio.run(serve(Path(sys.argv[1])))
