"""Very many cron jobs, and thousands that fire at one instant among them.

The same herd fires beside nothing and beside all the other jobs, so that their cost shows.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from rich.progress import Progress

from bench.stage import Stage
from gnomon.bench.arena import Arena
from gnomon.bench.functions import read_calls
from gnomon.bench.processes import calls_file, gnomon
from gnomon.bench.results import BenchError, Findings, Measure, TaskTally, at_most, percentile
from gnomon.clock import new_id
from gnomon.cron.job import Definition, schedule_of
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.task import DEFAULT_TENANT
from gnomon.store.postgres.cron.rows import stored_definition

LOAD_BATCH = 10_000
LEAD_SECONDS = 20.0  # from the start of a node to the instant, at the least
STARTED_SECONDS = 60.0
DAY_MINUTES = 24 * 60
_COLUMNS = ("tenant_id", "id", "name", "next_fire_at", "created_at", "updated_at", "definition")

Row = tuple[object, ...]


class Herd(msgspec.Struct, frozen=True):
    """What was seen of the jobs that fire at one instant."""

    delays: list[float]  # seconds from the instant to each start
    memory: int  # of a node, at its peak
    repeated: int


async def run(stage: Stage, jobs: int, herd: int, nodes: int, progress: Progress) -> Findings:
    findings = Findings()
    bar = progress.add_task("registering", total=jobs)
    async with stage.arena() as small, stage.arena() as large:
        began = time.perf_counter()
        minutes = await _register(large, jobs, lambda count: progress.advance(bar, count))
        took = time.perf_counter() - began
        bar = progress.add_task("firing at one instant", total=2)
        alone = await _fire(small, herd, nodes)
        progress.advance(bar)
        among = await _fire(large, herd, nodes)
        progress.advance(bar)
    for name, seen in (("alone", alone), ("among", among)):
        early = sum(delay < 0 for delay in seen.delays)
        findings.add([], TaskTally(f"cron_{name}", herd, len(seen.delays), early, seen.repeated))
    findings.add(_measures(jobs, herd, alone, among))
    findings.add(_spread(jobs, minutes))
    findings.add([Measure("register_rate", "registering by SQL", jobs / took, "/s")])
    return findings


def _measures(jobs: int, herd: int, alone: Herd, among: Herd) -> list[Measure]:
    measures = []
    for name, title, seen in (
        ("alone", f"{herd} fires at one instant", alone),
        ("among", f"the same among {jobs} jobs", among),
    ):
        late = [delay * 1000 for delay in seen.delays]
        measures += [
            Measure(f"{name}_p50", f"{title}: start delay p50", percentile(late, 0.5), "ms"),
            Measure(f"{name}_max", f"{title}: start delay max", max(late), "ms", at_most(1000)),
        ]
        memory = seen.memory / 1e6
        measures.append(Measure(f"{name}_memory", f"{title}: node memory, peak", memory, "MB"))
    return measures


def _spread(jobs: int, minutes: Counter[int]) -> list[Measure]:
    """How evenly `H H * * *` spreads over the minutes of a day. By chance alone the fullest minute
    has some four standard deviations more than the mean."""
    mean = jobs / DAY_MINUTES
    square = sum((minutes[m] - mean) ** 2 / mean for m in range(DAY_MINUTES)) / (DAY_MINUTES - 1)
    note = "1 is what chance gives"
    return [
        Measure("spread_mean", "jobs with H a minute, mean", mean),
        Measure("spread_max", "jobs with H a minute, fullest", max(minutes.values())),
        Measure("spread_chi", "chi-square over degrees of freedom", square, "", at_most(1.2), note),
    ]


async def _register(arena: Arena, jobs: int, advance: Callable[[int], None]) -> Counter[int]:
    """Jobs that fire once a day, at a minute of their own."""
    minutes: Counter[int] = Counter()
    for first in range(0, jobs, LOAD_BATCH):
        now = datetime.now(UTC)
        rows = []
        for number in range(first, min(jobs, first + LOAD_BATCH)):
            row, fire_at = _row(_daily(number), now)
            rows.append(row)
            minutes[fire_at.hour * 60 + fire_at.minute] += 1
        await arena.connection.copy_records_to_table(
            "cron_job", schema_name="gnomon", columns=_COLUMNS, records=rows
        )
        advance(len(rows))
        await asyncio.sleep(0)
    await arena.rest()
    return minutes


async def _fire(arena: Arena, herd: int, nodes: int) -> Herd:
    instant = _whole_minute(time.time() + LEAD_SECONDS + herd / 2000)
    at = datetime.fromtimestamp(instant, UTC)
    now = datetime.now(UTC)
    rows = [_row(_herded(number, at), now)[0] for number in range(herd)]
    await arena.connection.copy_records_to_table(
        "cron_job", schema_name="gnomon", columns=_COLUMNS, records=rows
    )
    await arena.connection.execute("ANALYZE gnomon.cron_job")
    folders = [arena.folder / f"node-{number}" for number in range(nodes)]
    async with AsyncExitStack() as stack:
        for folder in folders:
            folder.mkdir()
        running = [
            await stack.enter_async_context(gnomon("scheduler", arena.dsn, folder))
            for folder in folders
        ]
        await asyncio.sleep(instant - time.time())
        starts = await _starts(folders, herd)
        memory = max((node.peak_memory() or 0 for node in running), default=0)
    delays = [moments[0] - instant for moments in starts.values()]
    return Herd(delays, memory, sum(len(moments) > 1 for moments in starts.values()))


async def _starts(folders: Sequence[Path], herd: int) -> dict[int, list[float]]:
    deadline = time.monotonic() + STARTED_SECONDS
    while len(stamps := _stamps(folders)) < herd:
        if time.monotonic() > deadline:
            raise BenchError(f"{herd - len(stamps)} of {herd} runs did not start")
        await asyncio.sleep(0.2)
    return stamps


def _stamps(folders: Sequence[Path]) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for folder in folders:
        for number, moments in read_calls(calls_file(folder)).items():
            found.setdefault(number, []).extend(moments)
    return found


def _row(definition: Definition, now: datetime) -> tuple[Row, datetime]:
    job_id = new_id(now)
    fire_at = schedule_of(definition, str(job_id)).next_after(now)
    assert fire_at is not None
    text = stored_definition(definition)
    return (DEFAULT_TENANT, job_id, definition.name, fire_at, now, now, text), fire_at


def _daily(number: int) -> Definition:
    return Definition(
        name=f"daily-{number}",
        task_type="noop",
        target=PythonTarget("noop"),
        cron_expression="H H * * *",
    )


def _herded(number: int, at: datetime) -> Definition:
    return Definition(
        name=f"herd-{number}",
        task_type="stamp",
        target=PythonTarget("stamp"),
        cron_expression=f"{at.minute} {at.hour} * * *",
        payload_template=msgspec.Raw(msgspec.json.encode({"n": number})),
    )


def _whole_minute(moment: float) -> float:
    minute = timedelta(minutes=1).total_seconds()
    return -(-moment // minute) * minute
