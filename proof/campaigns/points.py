"""Named moments at which a process of a campaign can be made to kill itself.

A point is armed by a file that names it. The process that comes to it removes the file and dies by
SIGKILL: so the file is gone exactly if the point has struck. Nothing of this is in the product:
its methods are wrapped when the process starts.
"""

import contextlib
import functools
import importlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

# Which method lies between `before_<name>` and `after_<name>`. What it writes is committed when it
# returns, and what the process remembers of it is not yet changed.
_NODE: dict[str, tuple[str, ...]] = {
    "claim": ("gnomon.store.postgres.dispatch.dispatch_store:PostgresDispatch.claim",),
    "begin": ("gnomon.store.postgres.dispatch.dispatch_store:PostgresDispatch.begin",),
    "settle": ("gnomon.store.postgres.dispatch.dispatch_store:PostgresDispatch.settle",),
    "call": (
        "gnomon.node.run.targets.http:HttpCaller.call",
        "gnomon.node.run.targets.python:PythonCaller.call",
    ),
    "renew": ("gnomon.store.postgres.dispatch.roster:LeaseConnection.renew",),
    "declare_dead": ("gnomon.store.postgres.dispatch.roster:PostgresRoster.declare_dead",),
    "plan": ("gnomon.store.postgres.cron.planning_store:PostgresPlanning.advance",),
}
# Those of a remote worker, and of an API process that is its gateway.
_WORKER: dict[str, tuple[str, ...]] = {
    "call": ("gnomon.node.run.targets.python:PythonCaller.call",),
    "poll": ("gnomon.remote.gateway_calls:GatewayCalls.poll",),
    "beat": ("gnomon.remote.gateway_calls:BeatConnection.renew",),
}
_GATEWAY = {name: _NODE[name] for name in ("claim", "begin", "settle")}
_SUBMIT = "gnomon.store.postgres.tasks.task_store:PostgresTasks._insert"
_TRANSACTION = "gnomon.store.postgres.database:Database.transaction"

NODE_POINTS = tuple(f"{when}_{name}" for name in _NODE for when in ("before", "after"))
WORKER_POINTS = tuple(f"{when}_{name}" for name in _WORKER for when in ("before", "after"))
API_POINTS = (
    "before_submit",
    "before_submit_commit",  # all is written, and not committed
    "after_submit_commit",  # committed, and not answered
)


def crash_file(folder: Path, process: str) -> Path:
    return folder / f"{process}.crash"


def arm(file: Path, point: str) -> None:
    """Let the process die when it next comes to this point."""
    if point not in NODE_POINTS + WORKER_POINTS + API_POINTS:
        raise ValueError(f"there is no point {point!r}")
    new = file.with_suffix(".arming")
    new.write_text(point)
    new.rename(file)


def disarm(file: Path) -> bool:
    """Whether it was still armed."""
    try:
        file.unlink()
    except FileNotFoundError:
        return False
    return True


def watch(file: Path, command: str) -> None:
    """Put the points into this process, which is about to run `gnomon <command>`."""
    strike = functools.partial(_strike, file)
    if command == "api":
        around = functools.partial(_around, strike, "before_submit", "after_submit_commit")
        _wrap(_SUBMIT, around)
        _wrap(_TRANSACTION, functools.partial(_around_commit, strike))
    around_of = {"api": _GATEWAY, "worker": _WORKER}.get(command, _NODE)
    for name, methods in around_of.items():
        for method in methods:
            _wrap(method, functools.partial(_around, strike, f"before_{name}", f"after_{name}"))


def _strike(file: Path, point: str) -> None:
    try:
        armed = file.read_text()
    except FileNotFoundError:
        return
    if armed == point:
        with contextlib.suppress(FileNotFoundError):  # taken back in the same moment
            file.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
            signal.pause()  # the kernel may take the other threads first


def _wrap(where: str, wrapper: Callable[[Any], Any]) -> None:
    module, _, path = where.partition(":")
    owner_name, _, name = path.partition(".")
    owner = getattr(importlib.import_module(module), owner_name)
    setattr(owner, name, wrapper(getattr(owner, name)))


def _around(strike: Callable[[str], None], before: str, after: str, method: Any) -> Any:
    @functools.wraps(method)
    async def wrapped(*args: Any, **options: Any) -> Any:
        strike(before)
        result = await method(*args, **options)
        strike(after)
        return result

    return wrapped


def _around_commit(strike: Callable[[str], None], transaction: Any) -> Any:
    @asynccontextmanager
    async def wrapped(*args: Any, **options: Any) -> AsyncIterator[Any]:
        async with transaction(*args, **options) as connection:
            yield connection
            strike("before_submit_commit")
        strike("after_submit_commit")

    return wrapped
