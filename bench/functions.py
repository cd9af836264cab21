"""What the measured nodes run: a function that does nothing, and one that says when it began."""

import asyncio
import os
from functools import cache
from pathlib import Path
from typing import Any

from bench.recorder import Recorder

# Of trees from before there were apps, where these functions are named one by one.
FUNCTIONS = "noop=bench.functions:noop,stamp=bench.functions:stamp"
APP = "bench.handlers:app"
STAMPS_VARIABLE = "BENCH_STAMPS"  # names the file that `stamp` writes to


async def noop(payload: Any) -> None:
    """Nothing, so that all that is measured is Gnomon."""


async def stamp(payload: Any) -> None:
    """Note when this call began."""
    _recorder().note(payload["n"])


async def wait(payload: Any) -> None:
    """Be in flight for a while."""
    del payload
    await asyncio.sleep(8)


@cache
def _recorder() -> Recorder:
    return Recorder(Path(os.environ[STAMPS_VARIABLE]))
