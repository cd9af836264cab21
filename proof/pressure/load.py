"""Steady load: so many tasks a second, whatever becomes of those before them."""

import asyncio
from contextlib import suppress
from uuid import UUID

from tests.system.harness import Submitter

from gnomon.model.errors import StoreUnavailable
from gnomon.model.targets.target import PythonTarget

WORK = PythonTarget("work")
CODE = """
from gnomon import Gnomon

app = Gnomon()


@app.task
async def work(payload):
    pass
"""
_TICK_SECONDS = 0.02
_MOST_AT_ONCE = 5_000


class Load:
    """Submits at a rate, and remembers what was acknowledged."""

    def __init__(self, submitter: Submitter, rate: float) -> None:
        self._submitter = submitter
        self._rate = rate
        self.acknowledged: list[UUID] = []
        self.failed = 0  # batches of which nobody knows whether they were stored

    async def run(self, seconds: float) -> None:
        """Submit for so long. What could not be submitted in time is made up for."""
        loop = asyncio.get_running_loop()
        began, sent = loop.time(), 0
        while (passed := loop.time() - began) < seconds:
            due = int(passed * self._rate) - sent
            if due > 0:
                count = min(due, _MOST_AT_ONCE)
                with suppress(StoreUnavailable):
                    self.failed += 1
                    self.acknowledged += await self._submitter.submit(WORK, count)
                    self.failed -= 1
                    sent += count
            await asyncio.sleep(_TICK_SECONDS)
