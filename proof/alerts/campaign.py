"""One fault after another, each in a world and under a Prometheus of its own."""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from string import ascii_lowercase
from typing import Any, NamedTuple

from deploy.monitoring.rules import ALERTS
from proof.alerts.faults import Fault
from proof.alerts.prometheus import Prometheus, scraping
from proof.alerts.world import World
from tests.conftest import migrated

from gnomon.store.embedded import EmbeddedServer

WARM_SECONDS = 8.0  # of normal load before a fault
AFTER_SECONDS = 3.0  # in which something unexpected may still fire
_LOOK_SECONDS = 0.5
# What the machine itself raises while it is busy with something else: requests that take longer
# than 100 ms. It is shown, and judged only where a fault has to raise it.
MACHINE = frozenset({"GnomonApiLatencyBudget"})


class Result(NamedTuple):
    """What a fault should have raised, and what it has."""

    fault: str
    expected: list[str]
    fired: list[str]
    missed: list[str]
    unexpected: list[str]
    early: list[str]  # before the fault
    seconds: float  # until all that were expected had fired

    @property
    def good(self) -> bool:
        return not (self.missed or self.unexpected or self.early)


async def run(fault: Fault, folder: Path) -> Result:
    """Let the fault happen, and see what fires."""
    with EmbeddedServer(folder / "data", settings_overrides={"shared_buffers": "64MB"}) as server:
        await migrated(server.dsn)
        world = World(server.dsn, folder, **fault.settings)
        async with world.running():
            with scraping(folder / "prometheus", world.watched, fault.scale) as prometheus:
                return await _disturbed(fault, world, server, prometheus)


async def _disturbed(
    fault: Fault, world: World, server: EmbeddedServer, prometheus: Prometheus
) -> Result:
    async with background(world.normal_load()):
        await asyncio.sleep(WARM_SECONDS)
        # A world that is disturbed from its start has no time before.
        early = set() if fault.settings.get("database_max_bytes") else await _fired(prometheus)
        began = time.monotonic()
        async with background(fault.inject(world, server)):
            took = await _until_fired(fault, prometheus, began)
            await asyncio.sleep(AFTER_SECONDS)
            fired = await _fired(prometheus)
    return Result(
        fault.name,
        sorted(fault.raises),
        sorted(fired),
        sorted(fault.raises - fired),
        sorted(fired - fault.raises - fault.may - MACHINE),
        sorted(early - MACHINE),
        round(took, 1),
    )


async def _until_fired(fault: Fault, prometheus: Prometheus, began: float) -> float:
    """Wait until all that should has fired, or its time is over."""
    while (took := time.monotonic() - began) < fault.seconds:
        if fault.raises and fault.raises <= await _fired(prometheus):
            break
        await asyncio.sleep(_LOOK_SECONDS)
    return took


async def _fired(prometheus: Prometheus) -> set[str]:
    return await asyncio.to_thread(prometheus.fired)


@asynccontextmanager
async def background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Work that goes on meanwhile. Its failure is that of the campaign."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        yield
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.wait([task])


def table(results: Sequence[Result]) -> str:
    """Alerts by faults, in 80 columns. +: fired, as expected; o: fired, and may; M: missed; !:
    unexpected."""
    letters = ascii_lowercase[: len(results)]
    lines = [
        f"{letter}  {each.fault} ({_told(each)})"
        for letter, each in zip(letters, results, strict=True)
    ]
    lines += ["", " " * 22 + "".join(f"{letter:>2}" for letter in letters)]
    for name in dict.fromkeys(alert.name for alert in ALERTS):
        cells = "".join(f"{_cell(each, name):>2}" for each in results)
        lines.append(f"{name.removeprefix('Gnomon'):<22}{cells}")
    return "\n".join(lines)


def _told(result: Result) -> str:
    if result.missed:
        return f"not all within {result.seconds:.0f} s"
    return f"after {result.seconds:.0f} s" if result.expected else f"{result.seconds:.0f} s"


def _cell(result: Result, name: str) -> str:
    if name in result.missed:
        return "M"
    if name in result.unexpected or name in result.early:
        return "!"
    if name in result.fired:
        return "+" if name in result.expected else "o"
    return "."
