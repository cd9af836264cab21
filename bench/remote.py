"""Workers without a database, over HTTP and behind brokers, beside those with one: how fast they
drain, how soon a lone task starts, how many can be in flight, and what idle sessions cost."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import get_args

import msgspec
from proof.campaigns.pipe_servers import PipeName, make_pipe_server
from rich.progress import Progress

from bench.session_curve import curve
from bench.stage import Stage
from gnomon.bench.arena import Arena
from gnomon.bench.drain import SLOWEST_RATE, START_SECONDS
from gnomon.bench.latency import lone
from gnomon.bench.processes import Process
from gnomon.bench.results import Findings, Measure, TaskTally, at_least, at_most, number, percentile
from gnomon.bench.submission import submit
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.lifecycle import State

PROCESSES = (1, 2, 4)  # of a worker
WAYS = ("local", "remote", "redis", "rabbitmq", "kafka")
_NAMES = {
    "local": "with a database",
    "remote": "over HTTP",
    "redis": "behind Redis",
    "rabbitmq": "behind RabbitMQ",
    "kafka": "behind Kafka",
}
_FLIGHT_SECONDS = 60.0  # beyond which nothing in flight is waited for
By = tuple[str, str | None]  # the way, and the address of its broker


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How much of everything."""

    tasks: int
    rounds: int
    lone: int
    flight: int
    sessions: int
    seconds: float
    ways: tuple[str, ...]  # of WAYS, "local" among them


async def run(stage: Stage, plan: Plan, progress: Progress) -> Findings:
    with TemporaryDirectory() as folder, ExitStack() as stack:
        pipes = {}
        for name in (each for each in get_args(PipeName) if each in plan.ways):
            place = Path(folder) / name
            place.mkdir()
            server = make_pipe_server(name, place, ())
            stack.callback(server.kill)
            await asyncio.to_thread(server.start, {})
            pipes[name] = server.url()
        return await _run(stage, plan, progress, pipes)


async def _run(stage: Stage, plan: Plan, progress: Progress, pipes: Mapping[str, str]) -> Findings:
    findings, ways = Findings(), [(way, pipes.get(way)) for way in plan.ways]
    steps = plan.rounds * len(PROCESSES) * len(ways) + len(ways)
    steps += len(ways) * bool(plan.flight) + (len(ways) - 1) * bool(plan.sessions)
    bar = progress.add_task("", total=steps)
    rates: dict[tuple[str, int], list[float]] = {}
    for turn in range(plan.rounds):  # in turn, so that all meet the same weather
        for processes in PROCESSES:
            for by in ways if turn % 2 == 0 else ways[::-1]:
                progress.update(bar, description=f"drain, {by[0]}, {processes} processes")
                async with stage.arena() as arena:
                    rate, tally = await _drain(arena, by, processes, plan.tasks)
                findings.add([], tally)
                rates.setdefault((by[0], processes), []).append(rate)
                progress.advance(bar)
    findings.add(_rates(rates, plan.tasks))
    delays = {}
    for by in ways:
        progress.update(bar, description=f"lone tasks, {by[0]}")
        async with stage.arena() as arena:
            delays[by[0]] = await _lone(arena, by, plan.lone)
        progress.advance(bar)
    findings.add(_delays(delays, plan.lone))
    for by in ways if plan.flight else ():
        progress.update(bar, description=f"{plan.flight} in flight, {by[0]}")
        async with stage.arena() as arena:
            findings.add([await _flight(arena, by, plan.flight)])
        progress.advance(bar)
    for way, pipe in ways[1:] if plan.sessions else ():
        progress.update(bar, description=f"{plan.sessions} idle sessions, {way}")
        findings.add(await curve(stage, way, pipe, plan.sessions, plan.seconds))
        progress.advance(bar)
    return findings


@asynccontextmanager
async def _working(arena: Arena, by: By, processes: int, **settings: str) -> AsyncIterator[Process]:
    """An API process, and a worker by this way; gives the former."""
    way, pipe = by
    given = {} if pipe is None else {"pipe_url": pipe}
    async with arena.api(**given) as api:
        url = {"local": None, "remote": api.where}.get(way, pipe)
        async with arena.worker(processes, url, **settings):
            yield api


async def _drain(arena: Arena, by: By, processes: int, tasks: int) -> tuple[float, TaskTally]:
    await arena.preload(PythonTarget("noop"), tasks)
    patience = START_SECONDS + tasks / SLOWEST_RATE
    if by[0] == "local":
        async with arena.worker(processes):
            await arena.settled(patience)
    else:
        async with _working(arena, by, processes):
            await arena.settled(patience)
    tally = TaskTally(f"drain_{by[0]}_{processes}", tasks, await arena.completed())
    return await arena.steady_rate(), tally


def _rates(rates: dict[tuple[str, int], list[float]], tasks: int) -> list[Measure]:
    found = []
    for (way, processes), values in rates.items():
        title = f"drain by a worker {_NAMES[way]}, {processes} processes"
        note = f"{tasks} tasks, without the first and last tenth; median of "
        note += ", ".join(map(number, values))
        found.append(Measure(f"{way}_rate_{processes}", title, median(values), "/s", note=note))
    for way in sorted({way for way, _ in rates} - {"local"}):
        for processes in PROCESSES:
            pairs = zip(rates[way, processes], rates["local", processes], strict=True)
            ratios = [remote / local for remote, local in pairs]
            title = f"ratio, {_NAMES[way]} to with a database, {processes} processes"
            aim = at_least(0.5)
            found.append(Measure(f"{way}_ratio_{processes}", title, median(ratios), "", aim))
    return found


async def _lone(arena: Arena, by: By, count: int) -> list[float]:
    """Milliseconds from the answer to the start."""
    async with _working(arena, by, 1) as api:
        await submit(api, function="stamp", requests=5, pause=0.05, first=-5)  # warm up
        from_answer, _ = await lone(arena, api, count)
    return from_answer


async def _flight(arena: Arena, by: By, count: int) -> Measure:
    """How many are in flight on one worker at once, of as many as it has slots."""
    await arena.preload(PythonTarget("wait"), count)
    settings = {"node_slots": str(count), "node_critical_slots": "0"}
    most, began = 0, time.monotonic()
    async with _working(arena, by, 1, **settings):
        while time.monotonic() - began < _FLIGHT_SECONDS:
            running = "SELECT count(*) FROM gnomon.task WHERE state = $1"
            now = await arena.connection.fetchval(running, State.RUNNING)
            most = max(most, now)
            if most and now < most / 2:
                break
            await asyncio.sleep(0.25)
        await arena.settled(_FLIGHT_SECONDS)
        took = time.monotonic() - began
    done = await arena.completed()
    title = f"in flight at once on one worker {_NAMES[by[0]]}"
    note = f"of {count} that wait for 8 s; {done} completed within {took:.0f} s"
    return Measure(f"flight_{by[0]}", title, most, "", at_least(count), note)


def _delays(delays: dict[str, list[float]], count: int) -> list[Measure]:
    found = []
    for way, values in delays.items():
        for share in (0.5, 0.99):
            title = f"lone task, 202 answer to start, {way}, p{share * 100:g}"
            name = f"lone_{way}_p{share * 100:g}"
            found.append(Measure(name, title, percentile(values, share), "ms", note=f"{count}"))
    for way in delays.keys() - {"local"}:
        # Some start before their answer has arrived.
        ratio = percentile(delays[way], 0.5) / max(0.1, percentile(delays["local"], 0.5))
        title = f"ratio of the medians, lone task, {_NAMES[way]} to with a database"
        found.append(Measure(f"lone_ratio_{way}", title, ratio, "", at_most(2)))
    return found
