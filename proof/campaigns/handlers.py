"""The handlers that the nodes of a campaign run. Each writes down its own calls.

They are told by the environment of their node: `GNOMON_PROOF_FOLDER` (where to write),
`GNOMON_PROOF_EPOCH` (see book.py) and `GNOMON_NODE_NAME`.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from proof.campaigns import answers
from proof.campaigns.book import Book, now
from proof.campaigns.history import Call

from gnomon import Gnomon, TaskContext

app = Gnomon()
answers.declare(app)

_INSERT = "INSERT INTO proof.effect (n, run_id, fence, at) VALUES ($1, $2, $3, $4)"


class AskedToFail(Exception):
    """This try was meant to fail."""


@app.task
async def function(payload: Any, run: TaskContext) -> None:
    with _told(payload, run):
        await asyncio.sleep(payload["seconds"])
        _fail_if_asked(payload)


@app.task
def thread(payload: Any, run: TaskContext) -> None:
    with _told(payload, run):
        # Under a wrong clock (libfaketime) `time.sleep` fails.
        threading.Event().wait(payload["seconds"])
        _fail_if_asked(payload)


@app.task(delivery="exactly_once", transactional=True)
async def effect(payload: Any, run: TaskContext) -> None:
    """Its row and the end of its run are committed together, or neither is."""
    with _told(payload, run):
        await asyncio.sleep(payload["seconds"])
        _fail_if_asked(payload)
        await run.connection.execute(_INSERT, payload["n"], str(run.task_id), run.fence, now())


@app.task
async def poison(payload: Any, run: TaskContext) -> None:
    with _told(payload, run):
        os._exit(1)


@contextlib.contextmanager
def _told(payload: Any, run: TaskContext) -> Iterator[None]:
    """Write down the call around it."""
    call = Call(
        n=payload["n"],
        run_id=str(run.task_id),
        attempt=run.attempt,
        fence=run.fence,
        began_at=now(),
        node=os.environ.get("GNOMON_NODE_NAME"),
    )
    succeeded, hung_up = False, False
    _book().note(call)
    try:
        yield
        succeeded = True
    except asyncio.CancelledError:
        hung_up = True
        raise
    finally:
        _book().note(
            msgspec.structs.replace(call, ended_at=now(), succeeded=succeeded, hung_up=hung_up)
        )


def _fail_if_asked(payload: Any) -> None:
    """Fail the first tries, whichever nodes make them: each leaves a file behind."""
    folder = _folder() / "tries"
    folder.mkdir(exist_ok=True)
    for number in range(payload["fails"]):
        with contextlib.suppress(FileExistsError):
            (folder / f"{payload['n']}.{number}").touch(exist_ok=False)
            raise AskedToFail(f"try {number + 1} of {payload['fails']} that fail")


def _folder() -> Path:
    return Path(os.environ["GNOMON_PROOF_FOLDER"])


@cache
def _book() -> Book:
    return Book(_folder() / f"calls-{os.getpid()}.jsonl")
