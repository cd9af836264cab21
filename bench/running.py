"""A measure from its start to its end: server, progress, and a clean end when interrupted."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import typer
import uvloop
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.progress import TimeElapsedColumn as Elapsed

from bench import report
from bench.stage import Stage, stage
from gnomon.bench.machine import machine
from gnomon.bench.results import BenchError, Findings
from gnomon.observe import logging
from gnomon.settings import OutputSettings

Found = TypeVar("Found")
INTERRUPTED = 130
Work = Callable[[Stage, Progress], Coroutine[Any, Any, Findings]]


def run(
    work: Callable[[Stage, Progress], Coroutine[Any, Any, Found]],
) -> tuple[dict[str, Any], Found]:
    """Do `work` on a server of its own. Gives the facts of the machine, and what it found."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # leave nothing running behind
    logging.configure(OutputSettings(log_level="warning"))
    facts = machine()
    try:
        with (
            stage() as here,
            _progress() as progress,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            facts["postgresql"] = runner.run(here.version())
            return facts, runner.run(work(here, progress))
    except BenchError as error:
        Console(stderr=True).print(f"bench: {error}", markup=False)
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        Console(stderr=True).print("bench: interrupted")
        raise typer.Exit(INTERRUPTED) from None


def run_and_report(title: str, work: Work, options: dict[str, Any], json: Path | None) -> None:
    """Do `work`, print what it found, and write it to a file, if one is named."""
    facts, findings = run(work)
    show_and_write(title, facts, findings, options, json)


def show_and_write(
    title: str,
    facts: dict[str, Any],
    findings: Findings,
    options: dict[str, Any],
    json: Path | None,
) -> None:
    console = Console()
    report.show(console, title, findings)
    show_facts(console, facts)
    if json is not None:
        report.write_json(json, facts, options, findings)


def show_facts(console: Console, facts: dict[str, Any]) -> None:
    console.print(", ".join(f"{name} {value}" for name, value in facts.items()), style="dim")


def _progress() -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Elapsed(),
        console=Console(stderr=True),
    )
