"""A measure from its start to its end: server, progress, and a clean end when interrupted."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import typer
import uvloop
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.progress import TimeElapsedColumn as Elapsed

from bench.stage import Stage, stage
from gnomon.bench.machine import machine
from gnomon.bench.results import BenchError
from gnomon.observe import logging
from gnomon.settings import OutputSettings

Found = TypeVar("Found")
INTERRUPTED = 130


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
