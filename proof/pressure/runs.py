"""A run: steady load on one node under a disturbance, and what came of it by the window."""

import asyncio
import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import asyncpg
from proof.pressure.disturbances import KINDS, Trouble
from proof.pressure.load import CODE, Load
from tests.system.harness import Process, Truth, eventually, submitting

from gnomon.model.tasks.lifecycle import State

ENOUGH = 0.9  # of the calm run's rate, in every window
BACK_SECONDS = 5.0  # after a disturbance, until tasks start in time again
LATE_SECONDS = 1.0  # a task that starts later than this is held up
_WARM_SECONDS = 3.0
_LEFT_SECONDS = 120.0  # for what is left when the load has ended
# By when they were due: tasks in each part of so many seconds, and how late they started.
_PARTS = """
SELECT floor((extract(epoch FROM execute_at) - $1::float8) / $2::float8)::integer AS part,
    count(*) AS tasks,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY late) AS p50,
    percentile_disc(0.99) WITHIN GROUP (ORDER BY late) AS p99, max(late) AS latest
FROM (
    SELECT execute_at, extract(epoch FROM started_at - execute_at)::float8 AS late
    FROM gnomon.task_archive
    WHERE state = 10 AND task_type = 'work' AND execute_at >= to_timestamp($1)
) AS t
GROUP BY 1 ORDER BY 1
"""
# By when they started.
_STARTED = """
SELECT floor((extract(epoch FROM started_at) - $1::float8) / $2::float8)::integer AS part,
    count(*) AS tasks
FROM gnomon.task_archive
WHERE state = 10 AND task_type = 'work' AND started_at >= to_timestamp($1)
GROUP BY 1 ORDER BY 1
"""


class Size(NamedTuple):
    """How much of it."""

    seconds: float = 60.0
    rate: float = 2750.0
    window: float = 10.0


class Window(NamedTuple):
    """Some seconds of a run: tasks started in each of them, and how late those came that were due
    in them."""

    rate: float
    p50: float
    p99: float


class Result(NamedTuple):
    """What came of a run."""

    name: str
    windows: list[Window]
    latest: float  # start delay, seconds
    lost: int  # acknowledged, and not completed
    acknowledged: int
    back: float | None  # seconds from the end of the disturbance until tasks started in time
    note: str

    def readable(self) -> str:
        head = f"{self.name}: {KINDS[self.name].what}"
        lines = [
            f"  {number}. window {w.rate:8.0f} /s   start delay p50 {w.p50 * 1000:7.1f},"
            f" p99 {w.p99 * 1000:8.1f} ms"
            for number, w in enumerate(self.windows, 1)
        ]
        last = f"  {self.acknowledged} acknowledged, {self.lost} lost"
        last += f", the latest {self.latest:.2f} s late"
        if self.back is not None:
            lines.append(f"  {self.note}; in time again after {self.back:.0f} s")
        return "\n".join([head, *lines, last])


def faults(result: Result, calm: Result | None) -> list[str]:
    """What does not hold."""
    found = [f"{result.lost} tasks are lost"] if result.lost else []
    kind = KINDS[result.name]
    if calm is not None and kind.steady:
        usual = sorted(w.rate for w in calm.windows)[len(calm.windows) // 2]
        found += [
            f"window {number} has {window.rate / usual:.2f} of the calm run's rate"
            for number, window in enumerate(result.windows, 1)
            if window.rate < ENOUGH * usual
        ]
    if result.back is not None and result.back > BACK_SECONDS:
        found.append(f"in time again only after {result.back:.0f} s")
    return found


async def run(name: str, dsn: str, folder: Path, size: Size) -> Result:
    """Load a node on a database that nobody else uses."""
    (folder / "pressure_handlers.py").write_text(CODE)
    kind, truth = KINDS[name], Truth(dsn)
    node = Process(
        dsn, folder, f"node-{name}", "scheduler",
        node_app="pressure_handlers:app",
        node_lease_seconds=10, node_critical_slots="",
    )  # fmt: skip
    node.start()
    try:
        await node.started()
        async with submitting(dsn) as submitter:
            if not kind.fresh:
                await Load(submitter, size.rate).run(min(_WARM_SECONDS, size.seconds))
                await truth.fetch("VACUUM ANALYZE gnomon.task")
            load = Load(submitter, size.rate)
            trouble = Trouble(dsn, truth, size.seconds)
            began = float(await truth.value("SELECT extract(epoch FROM gnomon.now())::float8"))
            async with kind.context(trouble):
                await load.run(size.seconds)
        await eventually(lambda: _ended(truth), _LEFT_SECONDS)
        return await _result(name, truth, load, trouble, began, size)
    finally:
        node.close()
        truth.close()


async def _ended(truth: Truth) -> bool:
    return not await truth.value("SELECT EXISTS (SELECT FROM gnomon.task)")


async def _result(
    name: str, truth: Truth, load: Load, trouble: Trouble, began: float, size: Size
) -> Result:
    done = await truth.fetch("SELECT id FROM gnomon.task_archive WHERE state = $1", State.COMPLETED)
    completed = {row["id"] for row in done}
    due = {row["part"]: row for row in await truth.fetch(_PARTS, began, size.window)}
    started = {row["part"]: row["tasks"] for row in await truth.fetch(_STARTED, began, size.window)}
    windows = [
        Window(started.get(part, 0) / size.window, *_delays(due, part))
        for part in range(math.floor(size.seconds / size.window))
    ]
    return Result(
        name,
        windows,
        max((row["latest"] for row in due.values()), default=math.inf),
        sum(task not in completed for task in load.acknowledged),
        len(load.acknowledged),
        await _back(truth, trouble, began),
        trouble.note,
    )


def _delays(due: Mapping[int, asyncpg.Record], part: int) -> tuple[float, float]:
    row = due.get(part)
    return (math.inf, math.inf) if row is None else (row["p50"], row["p99"])


async def _back(truth: Truth, trouble: Trouble, began: float) -> float | None:
    """Seconds from the end of the disturbance to the last second whose tasks were held up."""
    if trouble.ended_at is None:
        return None
    ended = trouble.ended_at - began
    rows = await truth.fetch(_PARTS, began, 1.0)
    held = [row["part"] + 1 for row in rows if row["p99"] > LATE_SECONDS]
    return max(0.0, max(held, default=0.0) - ended)


async def pause() -> None:
    """Let the machine come to rest between two runs."""
    await asyncio.sleep(2.0)
