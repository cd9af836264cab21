"""What the measured nodes run: a function that does nothing, and one that says when it began."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

# Of trees from before there were apps, where these functions are named one by one.
FUNCTIONS = "noop=bench.functions:noop,stamp=bench.functions:stamp"
APP = "bench.handlers:app"
STAMPS_VARIABLE = "BENCH_STAMPS"  # names the file that `stamp` writes to
_FLUSH_SECONDS = 0.25

_stamps: list[tuple[int, float]] = []


async def noop(payload: Any) -> None:
    """Nothing, so that all that is measured is Gnomon."""


async def stamp(payload: dict[str, int]) -> None:
    """Note when this call began. Writing is left for later: it would delay the next start."""
    _stamps.append((payload["n"], time.time()))
    if len(_stamps) == 1:
        asyncio.get_running_loop().call_later(_FLUSH_SECONDS, _flush)


def _flush() -> None:
    lines = "".join(f"{number} {moment!r}\n" for number, moment in _stamps)
    _stamps.clear()
    with Path(os.environ[STAMPS_VARIABLE]).open("a") as file:
        file.write(lines)


def read_stamps(file: Path) -> dict[int, list[float]]:
    """When each number was called, whole lines only."""
    found: dict[int, list[float]] = {}
    text = file.read_text() if file.exists() else ""
    for line in text.splitlines(keepends=True):
        if line.endswith("\n"):
            number, moment = line.split()
            found.setdefault(int(number), []).append(float(moment))
    return found
