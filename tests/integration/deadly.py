"""Handlers that child processes run for the tests: what they do, their payload says."""

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gnomon.sdk.app import Gnomon
from gnomon.sdk.executing.context import TaskContext
from gnomon.sdk.signals import Reject, Snooze

app = Gnomon()


@app.task
async def echo(payload: Any) -> Any:
    return payload


@app.task
async def spawn(payload: Any, ctx: TaskContext) -> list[str]:
    return [str(ctx.spawn(echo, n)) for n in range(payload["n"])]


@app.task
def echo_in_a_thread(payload: Any) -> Any:
    return payload


@app.task
async def where(payload: Any) -> int:
    return os.getpid()


@app.task
async def wait_for(payload: Any) -> int:
    """Until a file is there."""
    note(payload)
    while not Path(payload["file"]).exists():
        await asyncio.sleep(0.01)
    return os.getpid()


@app.task
async def block_until(payload: Any) -> None:
    """The same, and nothing else in its process makes progress meanwhile."""
    note(payload)
    while not Path(payload["file"]).exists():
        time.sleep(0.01)


@app.task
async def die(payload: Any) -> None:
    note(payload)
    if "after" in payload:
        while not Path(payload["after"]).exists():
            await asyncio.sleep(0.01)
    _DEATHS[payload["how"]]()


@app.task
def die_in_a_thread(payload: Any) -> None:
    note(payload)
    _DEATHS[payload["how"]]()


def _exit() -> None:
    os._exit(9)


def _block() -> None:
    time.sleep(60)


def _segfault() -> None:
    ctypes.string_at(0)


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _leave_a_grandchild() -> None:
    """Which holds whatever it has inherited open, longer than the process lives."""
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"], close_fds=False)
    os._exit(3)


def _write_nonsense() -> None:
    for fd in range(3, 20):
        with contextlib.suppress(OSError):
            os.write(fd, b"\xff" * 100)
    time.sleep(60)


_DEATHS: dict[str, Callable[[], None]] = {
    "exit": _exit,
    "kill": _kill,
    "segfault": _segfault,
    "grandchild": _leave_a_grandchild,
    "nonsense": _write_nonsense,
    "block": _block,
}


@app.task
async def leave_a_bomb(payload: Any) -> str:
    """Ends well, and kills the process later."""
    threading.Timer(0.3, os._exit, (7,)).start()
    return "harmless"


@app.task
async def fail(payload: Any) -> None:
    raise {"snooze": Snooze(5), "reject": Reject("no"), "exit": SystemExit(3)}[payload["how"]]


@app.task
async def exit_in_a_task(payload: Any) -> str:
    async def leave() -> None:
        sys.exit(5)

    task = asyncio.get_running_loop().create_task(leave())
    await asyncio.wait([task])
    return "alive"


@app.task
async def stop_when_told(payload: Any) -> None:
    note(payload)
    try:
        await asyncio.Event().wait()
    finally:
        note(payload, "stopped")


@app.task
async def be_stubborn(payload: Any) -> None:
    note(payload)
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


@app.task
def hang_in_a_thread(payload: Any) -> None:
    note(payload)
    time.sleep(600)


@app.task
async def complete(payload: Any, run: TaskContext) -> None:
    run.completed = True
    note(payload)
    await asyncio.Event().wait()


@app.task
async def speak(payload: Any) -> str:
    print("spoken on stdout")
    sys.stdout.flush()
    return sys.stdin.read()


def note(payload: Any, what: str = "begun") -> None:
    """Leave a file that says so."""
    if "notes" in payload:
        name = f"{payload.get('name', '')}.{what}.{os.getpid()}.{time.monotonic_ns()}"
        (Path(payload["notes"]) / name).touch()
