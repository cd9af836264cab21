"""Workers without a database beside those with one: how fast they drain, how soon a lone task
starts, and what idle sessions cost the API process that is their gateway."""

import asyncio
import os
import time
from pathlib import Path
from statistics import median

import msgspec
from rich.progress import Progress

from bench.drain import SLOWEST_RATE, START_SECONDS
from bench.latency import lone
from bench.processes import Process, helper
from bench.results import Findings, Measure, Tally, at_least, at_most, number, percentile
from bench.sessions import Answered, Asked
from bench.stage import Arena, Stage
from bench.submission import submit
from gnomon.model.targets.target import PythonTarget

PROCESSES = (1, 4)  # of a worker
_WAYS = ("local", "remote")
_HELPERS = 4  # processes that hold the sessions
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How much of everything."""

    tasks: int
    rounds: int
    lone: int
    sessions: int
    seconds: float


async def run(stage: Stage, plan: Plan, progress: Progress) -> Findings:
    findings = Findings()
    bar = progress.add_task("", total=plan.rounds * len(PROCESSES) * len(_WAYS) + 3)
    rates: dict[tuple[str, int], list[float]] = {}
    for turn in range(plan.rounds):  # in turn, so that all meet the same weather
        for processes in PROCESSES:
            for way in _WAYS if turn % 2 == 0 else _WAYS[::-1]:
                progress.update(bar, description=f"drain, {way}, {processes} processes")
                async with stage.arena() as arena:
                    rate, tally = await _drain(arena, way, processes, plan.tasks)
                findings.add([], tally)
                rates.setdefault((way, processes), []).append(rate)
                progress.advance(bar)
    findings.add(_rates(rates, plan.tasks))
    delays = {}
    for way in _WAYS:
        progress.update(bar, description=f"lone tasks, {way}")
        async with stage.arena() as arena:
            delays[way] = await _lone(arena, way, plan.lone)
        progress.advance(bar)
    findings.add(_delays(delays, plan.lone))
    if plan.sessions:
        progress.update(bar, description=f"{plan.sessions} idle sessions")
        async with stage.arena() as arena:
            findings.add(await _sessions(arena, plan))
    progress.advance(bar)
    return findings


async def _drain(arena: Arena, way: str, processes: int, tasks: int) -> tuple[float, Tally]:
    await arena.preload(PythonTarget("noop"), tasks)
    patience = START_SECONDS + tasks / SLOWEST_RATE
    if way == "local":
        async with arena.worker(processes):
            await arena.settled(patience)
    else:
        async with arena.api() as api, arena.worker(processes, api.where):
            await arena.settled(patience)
    tally = Tally(f"drain_{way}_{processes}", tasks, await arena.completed())
    return await arena.steady_rate(), tally


def _rates(rates: dict[tuple[str, int], list[float]], tasks: int) -> list[Measure]:
    found = []
    for (way, processes), values in rates.items():
        name = {"local": "with a database", "remote": "without"}[way]
        title = f"drain by a worker {name}, {processes} processes"
        note = f"{tasks} tasks, without the first and last tenth; median of "
        note += ", ".join(map(number, values))
        found.append(Measure(f"{way}_rate_{processes}", title, median(values), "/s", note=note))
    for processes in PROCESSES:
        pairs = zip(rates["remote", processes], rates["local", processes], strict=True)
        ratios = [remote / local for remote, local in pairs]
        title = f"ratio, without a database to with one, {processes} processes"
        found.append(Measure(f"remote_ratio_{processes}", title, median(ratios), "", at_least(0.5)))
    return found


async def _lone(arena: Arena, way: str, count: int) -> list[float]:
    """Milliseconds from the answer to the start."""
    async with arena.api() as api:
        url = None if way == "local" else api.where
        async with arena.worker(1, url):
            await submit(api, function="stamp", requests=5, pause=0.05, first=-5)  # warm up
            from_answer, _ = await lone(arena, api, count)
    return from_answer


def _delays(delays: dict[str, list[float]], count: int) -> list[Measure]:
    found = []
    for way, values in delays.items():
        for share in (0.5, 0.99):
            title = f"lone task, 202 answer to start, {way}, p{share * 100:g}"
            name = f"lone_{way}_p{share * 100:g}"
            found.append(Measure(name, title, percentile(values, share), "ms", note=f"{count}"))
    # Some start before their answer has arrived.
    ratio = percentile(delays["remote"], 0.5) / max(0.1, percentile(delays["local"], 0.5))
    title = "ratio of the medians, lone task, without a database to with one"
    return [*found, Measure("lone_ratio", title, ratio, "", at_most(2))]


async def _sessions(arena: Arena, plan: Plan) -> list[Measure]:
    async with arena.api() as api:
        await asyncio.sleep(2)  # it has started by then
        idle, before = _resident(api), _processor(api)
        each = plan.sessions // _HELPERS
        asked = [Asked(api.where, each, plan.seconds) for _ in range(_HELPERS)]
        began = time.monotonic()
        answers = await asyncio.gather(*(helper("bench.sessions", a, Answered) for a in asked))
        took = time.monotonic() - began
        used, peak = _processor(api) - before, api.peak_memory()
    opened = sum(answer.opened for answer in answers)
    failed = sum(answer.failed for answer in answers)
    polls = sum(answer.polls for answer in answers)
    note = f"{opened} sessions for {took:.0f} s, {polls} polls and beats, {failed} failed"
    found = [
        Measure("sessions", "sessions open at once", opened, "", at_least(plan.sessions), note),
        Measure("sessions_failed", "calls that failed", failed, "", at_most(0)),
        Measure("sessions_cpu", "API process: processor", 100 * used / took, "% of a core"),
        Measure("sessions_idle", "API process: memory before", _megabytes(idle), "MB"),
        Measure("sessions_peak", "API process: memory at the most", _megabytes(peak or 0), "MB"),
    ]
    if peak is not None and opened:
        kilobytes = (peak - idle) / opened / 1024
        found.append(Measure("sessions_each", "memory of a session", kilobytes, "kB"))
    return found


def _resident(process: Process) -> int:
    """Bytes that it holds in memory."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _processor(process: Process) -> float:
    """Seconds that it has used a processor for."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _CLOCK_TICKS


def _megabytes(size: int) -> float:
    return size / 1024 / 1024
