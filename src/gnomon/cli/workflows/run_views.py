"""Shows runs of workflows: a list, one as a tree, and the tree as it changes."""

import shutil
import sys
from collections.abc import AsyncIterable, AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gnomon.cli.shared import output
from gnomon.cli.shared.output import age, moment
from gnomon.cli.shared.tables import Column, Fit
from gnomon.cli.shared.waiting import goes_on, states
from gnomon.cli.workflows.run_tree import TreeLine, counted, fitted, tree

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json
    from gnomon.client.client import DocumentClient

OVER = ("SUCCEEDED", "FAILED", "CANCELLED", "ROLLED_BACK")
_HEADING = 3  # lines above and below the tree
_RUNS = (
    Column("id", Fit.ID),
    Column("workflow", Fit.NAME),
    Column("version", Fit.WHOLE, rank=2),
    Column("status", Fit.WHOLE),
    Column("started", Fit.WHOLE),
    Column("ended", Fit.WHOLE, rank=1),
)


def now() -> datetime:
    from gnomon.clock import SystemClock

    return SystemClock().now().astimezone(UTC)


async def run_list(found: AsyncIterable["Json"]) -> None:
    """Print a row for each run."""
    at = now()
    rows = [
        (
            run["run_id"],
            run["workflow"] or "",
            str(run["version"] or ""),
            run["status"],
            age(run["created_at"], at),
            age(run["finished_at"], at) if run["finished_at"] else "",
        )
        async for run in found
    ]
    if rows:
        output.table(_RUNS, rows)
    else:
        output.note("no runs")


def show(run: "Json") -> None:
    """Print a run with all of its nodes."""
    output.fields(
        [
            ("run", run["run_id"]),
            ("workflow", _named(run)),
            ("status", run["status"]),
            ("reason", run.get("reason") or ""),
            ("started", moment(run["created_at"])),
            ("ended", moment(run["finished_at"])),
            ("deadline", moment(run["deadline"])),
            ("retry of", run["retry_of"] or ""),
            ("input", output.shortened(output.compact(run.get("input")), 400)),
        ]
    )
    output.echo()
    for line in tree(run["nodes"], now(), output.width()):
        output.line(line.text, output.style_of(line.status))


async def watch(client: "DocumentClient", run_id: str, *, quiet: bool) -> "Json":
    """The run once it has ended, or a dead letter holds it up. Until then its tree is drawn anew on
    a terminal, unless `quiet`."""

    async def read(seconds: float | None) -> "Json":
        found: Json = await client.get_workflow_run(run_id, wait=seconds)
        return found

    looks = states(read, lambda run: run["status"] in OVER)
    show = f"workflows runs show {run_id} --watch"
    with goes_on("run", show, f"workflows runs cancel {run_id}"):
        if quiet or not sys.stdout.isatty():
            async for run in looks:
                last = run
            return last
        return await _drawn(looks)


async def _drawn(looks: AsyncIterator["Json"]) -> "Json":
    # Here and not above: few commands need it.
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(), auto_refresh=False, transient=True) as live:
        async for run in looks:
            size = shutil.get_terminal_size()
            text = Text("\n", no_wrap=True)
            for line in screen(run, now(), size.columns, size.lines):
                style = output.style_of(line.status)
                text.append(f"{output.visible(line.text)}\n", style=style or None)
            live.update(text, refresh=True)
    return run


def screen(run: "Json", at: datetime, width: int, height: int) -> list[TreeLine]:
    """The lines of a run that fit a terminal."""
    started = datetime.fromisoformat(run["created_at"])
    since = output.coarse(max(0.0, (at - started).total_seconds()))
    heading = f"{_named(run)}  {run['status']}, for {since}"
    nodes = fitted(tree(run["nodes"], at, width), height - _HEADING)
    return [TreeLine(heading, run["status"]), *nodes, TreeLine(counted(run["nodes"]), "")]


def _named(run: "Json") -> str:
    if run["workflow"] is None:
        return "a definition of its own"
    return f"{run['workflow']}, version {run['version']}"
