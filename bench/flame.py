"""Where the time of a node goes while it drains: stacks sampled by py-spy, drawn as a flame graph.

Small on purpose: frames below a share of the whole are left out, so that it can be kept in docs.
"""

import asyncio
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.sax.saxutils import escape

import msgspec
from rich.progress import Progress

from bench.stage import Stage
from gnomon.bench.drain import SLOWEST_RATE, START_SECONDS
from gnomon.bench.results import BenchError, Findings, Measure, TaskTally
from gnomon.model.targets.target import PythonTarget

LEAST = 0.005  # of all samples; smaller frames are not drawn
RATE = 400  # samples a second
_STOP_SECONDS = 30.0
_WIDTH, _ROW, _TOP = 1000, 16, 32
_COLOURS = {"gnomon": "#f59e0b", "asyncpg": "#60a5fa", "asyncio": "#cbd5e1", "uvloop": "#cbd5e1"}
_OTHER = "#e5e7eb"
_LOOP = "_run_on (gnomon/loop.py)"  # runs the loop of a node; other threads have none of it
_FRAME = re.compile(r"^(?P<function>.+?) \((?P<file>.+?)(?::\d+)?\)$")


class Frame(msgspec.Struct):
    """A function, with all that it called."""

    name: str
    count: int = 0
    called: dict[str, "Frame"] = {}

    def add(self, stack: Iterable[str], count: int) -> None:
        self.count += count
        frame = self
        for name in stack:
            frame = frame.called.setdefault(name, Frame(name))
            frame.count += count


async def run(stage: Stage, tasks: int, file: Path, progress: Progress) -> Findings:
    program = shutil.which("py-spy")
    if program is None:
        raise BenchError("py-spy is not on the PATH: pip install py-spy")
    progress.add_task("draining under py-spy", total=None)
    async with stage.arena() as arena:
        raw = arena.folder / "stacks"
        await arena.preload(PythonTarget("noop"), tasks)
        async with arena.node() as node:
            spy = await asyncio.create_subprocess_exec(
                program, "record", "--pid", str(node.pid), "--format", "raw", "--function",
                "--rate", str(RATE), "--output", str(raw), "--duration", "unlimited",
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            try:
                await arena.settled(START_SECONDS + tasks / SLOWEST_RATE)
                spy.send_signal(signal.SIGINT)  # then it writes
                async with asyncio.timeout(_STOP_SECONDS):
                    await spy.wait()
            finally:
                if spy.returncode is None:
                    spy.kill()
                    await spy.wait()
        tally = TaskTally("flame", tasks, await arena.completed())
        whole = read(raw.read_text().splitlines() if raw.exists() else [])
    if not whole.count:
        raise BenchError("py-spy saw nothing: may it trace other processes? More --tasks help, too")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(picture(whole))
    findings = Findings()
    findings.add([Measure("flame_samples", "stacks sampled", whole.count, "")], tally)
    return findings


def read(lines: Iterable[str]) -> Frame:
    """The stacks of the node's loop: `function (file:line);function (file:line) count`."""
    whole = Frame("node")
    for line in lines:
        stack, _, count = line.rpartition(" ")
        frames = [_short(frame) for frame in stack.split(";")]
        if _LOOP in frames:  # below it there is only how the program was started
            whole.add(frames[frames.index(_LOOP) + 1 :], int(count))
    return whole


def _short(frame: str) -> str:
    found = _FRAME.match(frame)
    if found is None:
        return frame
    parts = Path(found["file"]).parts
    known = [n for n, part in enumerate(parts) if part in _COLOURS]
    where = "/".join(parts[known[0] :] if known else parts[-1:])
    return f"{found['function']} ({where})"


def picture(whole: Frame) -> str:
    """The frames as boxes, each as wide as its share of the samples, callers below."""
    boxes = list(_boxes(whole, 0.0, 0, whole.count))
    rows = max(row for _, row, _ in boxes) + 1
    height = _TOP + rows * _ROW
    title = f"A node while it drains no-ops: {whole.count} stacks of its main thread"
    drawn = "\n".join(_drawn(frame, x, height - (row + 1) * _ROW, whole.count)
                      for x, row, frame in boxes)  # fmt: skip
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'font-family="monospace" font-size="10" role="img">\n<title>{escape(title)}</title>\n'
        '<rect width="100%" height="100%" fill="white"/>\n'
        f'<text x="6" y="20" font-size="14">{escape(title)}</text>\n{drawn}\n</svg>\n'
    )


def _boxes(frame: Frame, x: float, row: int, total: int) -> Iterator[tuple[float, int, Frame]]:
    yield x, row, frame
    for called in sorted(frame.called.values(), key=lambda each: each.name):
        if called.count >= LEAST * total:
            yield from _boxes(called, x, row + 1, total)
        x += called.count / total * _WIDTH


def _drawn(frame: Frame, x: float, y: float, total: int) -> str:
    width = frame.count / total * _WIDTH
    where = frame.name.partition("(")[2].partition("/")[0]
    told = escape(f"{frame.name}: {frame.count / total:.1%}")
    room = int(width / 6.2)
    shown = frame.name.partition(" (")[0]
    words = escape(shown if len(shown) <= room else shown[: room - 1] + "…") if room > 3 else ""
    return (
        f'<g><title>{told}</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" '
        f'height="{_ROW - 1}" fill="{_COLOURS.get(where, _OTHER)}"/>'
        f'<text x="{x + 2:.1f}" y="{y + 11}">{words}</text></g>'
    )
