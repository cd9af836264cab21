"""What open dashboards cost: the processor time of a task, with and without them, in turn."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from statistics import median
from urllib.parse import quote

import aiohttp
from rich.progress import Progress
from yarl import URL

from bench.drain import SLOWEST_RATE, START_SECONDS
from bench.results import BenchError, Findings, Measure, Tally, at_most, number
from bench.rounds import median_interval, turns
from bench.stage import Stage
from bench.usage import cpu_seconds
from gnomon.model.target import PythonTarget

GOAL = 1.05
MICRO = 1e6
_LIVE_PART = re.compile(r'id="live-part" data-refresh="([^"]+)" data-topics="([^"]+)"')
_PAGES = ("/", "/", "/tasks", "/nodes")  # one dashboard each, over and over


class Watchers:
    """Browsers that have a page open, and ask for its live part whenever they are told to."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.told = 0
        self.asked = 0

    @asynccontextmanager
    async def open(self, count: int) -> AsyncIterator[None]:
        unbounded = aiohttp.ClientTimeout(total=None)
        connections = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(
            self._url, timeout=unbounded, connector=connections
        ) as client:
            opened = [asyncio.Event() for _ in range(count)]
            tasks = [
                asyncio.create_task(self._open(client, _PAGES[place % len(_PAGES)], ready))
                for place, ready in enumerate(opened)
            ]
            for ready in opened:
                await ready.wait()
            try:
                yield
                for task in tasks:
                    if task.done():
                        raise BenchError(f"a dashboard ended: {task.exception()!r}")
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _open(self, client: aiohttp.ClientSession, path: str, ready: asyncio.Event) -> None:
        try:
            await self._watch(client, path, ready)
        finally:
            ready.set()

    async def _watch(self, client: aiohttp.ClientSession, path: str, ready: asyncio.Event) -> None:
        async with client.get(path) as answer:
            found = _LIVE_PART.search(await answer.text())
        if found is None:
            raise BenchError(f"{path} has no live part")
        there, topics = (unescape(each) for each in found.groups())
        refresh = str(URL(there).update_query(fragment="1"))
        async with client.get(f"/live?topics={quote(topics)}") as stream:
            stream.raise_for_status()
            ready.set()
            async for line in stream.content:
                if line.startswith(b"event: changed"):
                    self.told += 1
                    async with client.get(refresh) as answer:
                        await answer.read()
                        answer.raise_for_status()
                    self.asked += 1
        raise BenchError("a stream ended")


async def run(
    stage: Stage, tasks: int, pairs: int, dashboards: int, progress: Progress
) -> Findings:
    findings = Findings()
    bar = progress.add_task("", total=pairs * 2)
    used: dict[int, list[float]] = {0: [], dashboards: []}
    asked = []
    for pair in turns([dashboards, 0], pairs):
        for count in pair:
            progress.update(bar, description=f"{count} dashboards")
            cpu, refreshed, tally = await _drain(stage, tasks, count)
            findings.add([], tally)
            used[count].append(cpu)
            if count:
                asked.append(refreshed)
            progress.advance(bar)
    findings.add(_measures(used[dashboards], used[0], asked, dashboards))
    return findings


async def _drain(stage: Stage, tasks: int, dashboards: int) -> tuple[float, int, Tally]:
    """Microseconds of node, API and PostgreSQL together for each task, and how often a page was
    brought up to date."""
    async with stage.arena() as arena:
        await arena.preload(PythonTarget("noop"), tasks)
        async with arena.api() as api:
            watchers = Watchers(api.where)
            async with watchers.open(dashboards), arena.node() as node:
                pids = (node.pid, api.pid, stage.server.pid)
                before = [cpu_seconds(pid) for pid in pids]
                await arena.settled(START_SECONDS + tasks / SLOWEST_RATE)
                after = [cpu_seconds(pid) for pid in pids]
        spent = sum((end or 0) - (begin or 0) for begin, end in zip(before, after, strict=True))
        tally = Tally(f"drain_{dashboards}", tasks, await arena.completed())
    return spent / tasks * MICRO, watchers.asked, tally


def _measures(
    watched: list[float], alone: list[float], asked: list[int], dashboards: int
) -> list[Measure]:
    ratios = [one / other for one, other in zip(watched, alone, strict=True)]
    interval = median_interval(ratios)
    note = (
        f"of {', '.join(f'{ratio:.3f}' for ratio in ratios)}; between {interval.low:.3f} and "
        f"{interval.high:.3f} with {interval.confidence:.0%}"
    )
    return [
        Measure("watched_cpu", f"a task beside {dashboards} dashboards", median(watched), "µs"),
        Measure("alone_cpu", "a task beside none", median(alone), "µs"),
        Measure("watching_ratio", "ratio, median of pairs", median(ratios), "", at_most(GOAL),
                note),
        Measure("refreshes", "pages brought up to date in a drain", median(asked), "",
                note=", ".join(number(each) for each in asked)),
    ]  # fmt: skip
