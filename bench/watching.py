"""What open dashboards cost: the processor time of a task, with and without them, in turn."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from statistics import median
from urllib.parse import quote

import aiohttp
import msgspec
from rich.progress import Progress
from yarl import URL

from bench.rounds import median_interval, turns
from bench.stage import Stage
from bench.usage import cpu_seconds
from gnomon.bench.drain import SLOWEST_RATE, START_SECONDS
from gnomon.bench.results import BenchError, Findings, Measure, TaskTally, at_most, number
from gnomon.model.targets.target import PythonTarget

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


class Spent(msgspec.Struct, frozen=True):
    """What a drain cost, in microseconds of the processor for each task."""

    node: float
    api: float
    postgresql: float
    rate: float  # tasks a second: pages cost by the second, so a slow drain would look dearer
    refreshed: int  # how often a page was brought up to date

    @property
    def all(self) -> float:
        return self.node + self.api + self.postgresql


async def run(
    stage: Stage, tasks: int, pairs: int, dashboards: int, progress: Progress
) -> Findings:
    findings = Findings()
    bar = progress.add_task("", total=pairs * 2)
    spent: dict[int, list[Spent]] = {0: [], dashboards: []}
    for pair in turns([dashboards, 0], pairs):
        for count in pair:
            progress.update(bar, description=f"{count} dashboards")
            one, tally = await _drain(stage, tasks, count)
            findings.add([], tally)
            spent[count].append(one)
            progress.advance(bar)
    findings.add(_measures(spent[dashboards], spent[0], dashboards))
    return findings


async def _drain(stage: Stage, tasks: int, dashboards: int) -> tuple[Spent, TaskTally]:
    async with stage.arena() as arena:
        await arena.preload(PythonTarget("noop"), tasks)
        async with arena.api() as api:
            watchers = Watchers(api.where)
            async with watchers.open(dashboards), arena.node() as node:
                pids = (node.pid, api.pid, stage.server.pid)
                refreshed, began = watchers.asked, time.monotonic()
                before = [_cpu(pid) for pid in pids]
                await arena.settled(START_SECONDS + tasks / SLOWEST_RATE)
                seconds = time.monotonic() - began
                used = [_cpu(pid) - start for pid, start in zip(pids, before, strict=True)]
                refreshed = watchers.asked - refreshed
        tally = TaskTally(f"drain_{dashboards}", tasks, await arena.completed())
    node_us, api_us, postgresql_us = (each / tasks * MICRO for each in used)
    return Spent(node_us, api_us, postgresql_us, tasks / seconds, refreshed), tally


def _cpu(pid: int) -> float:
    seconds = cpu_seconds(pid)
    if seconds is None:
        raise BenchError("this system does not tell the processor time of a process")
    return seconds


def _measures(watched: list[Spent], alone: list[Spent], dashboards: int) -> list[Measure]:
    ratios = [one.all / other.all for one, other in zip(watched, alone, strict=True)]
    interval = median_interval(ratios)
    note = (
        f"of {', '.join(f'{ratio:.3f}' for ratio in ratios)}; between {interval.low:.3f} and "
        f"{interval.high:.3f} with {interval.confidence:.0%}"
    )
    refreshed = [one.refreshed for one in watched]
    return [
        Measure("watched_cpu", f"a task beside {dashboards} dashboards", _median(watched, "all"),
                "µs", note=_shares(watched)),
        Measure("alone_cpu", "a task beside none", _median(alone, "all"), "µs",
                note=_shares(alone)),
        Measure("watching_ratio", "ratio, median of pairs", median(ratios), "", at_most(GOAL),
                note),
        Measure("refreshes", "pages brought up to date in a drain", median(refreshed), "",
                note=", ".join(number(each) for each in refreshed)),
    ]  # fmt: skip


def _shares(drains: list[Spent]) -> str:
    node, api, postgresql = (_median(drains, name) for name in ("node", "api", "postgresql"))
    return (
        f"node {node:.0f}, API {api:.0f}, PostgreSQL {postgresql:.0f}; "
        f"at {_median(drains, 'rate'):.0f} tasks/s"
    )


def _median(drains: list[Spent], name: str) -> float:
    return float(median(getattr(drain, name) for drain in drains))
