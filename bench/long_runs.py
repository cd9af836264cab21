"""`bench growth`, `bench steady` and `bench flame`: see docs/proof/measuring.md."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from bench import flame as burning
from bench import growth as growing
from bench import steady as lasting
from bench.running import run_and_report

Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the same here.")]
Plots = Annotated[
    Path | None, typer.Option("--plots", metavar="FOLDER", help="Draw SVG files here.")
]
MOST = {"scheduled": 200_000_000, "archived": 200_000_000, "tenants": 10_000, "nodes": 16}


def growth(
    scheduled: Annotated[
        str, typer.Option(help="Rows, by commas; '': not measured.")
    ] = "0,1000000",
    archived: Annotated[str, typer.Option(help="Rows, by commas.")] = "0,1000000",
    tenants: Annotated[str, typer.Option(help="By commas.")] = "1,100,10000",
    nodes: Annotated[str, typer.Option(help="Processes on this machine, by commas.")] = "1,2,4",
    tasks: Annotated[int, typer.Option(min=1, help="To drain.")] = 20_000,
    seconds: Annotated[float, typer.Option(min=0.1, help="Of each sustained load.")] = 5.0,
    rounds: Annotated[int, typer.Option(min=1)] = 3,
    json: Json = None,
    plot: Plots = None,
) -> None:
    """Measure drain, sustained rate and start delay as rows, tenants and nodes grow.

    bench growth --scheduled 0,1000000,10000000 --archived '' --tenants '' --nodes ''

    bench growth --json build/growth.json --plots docs/images
    """
    asked = {"scheduled": scheduled, "archived": archived, "tenants": tenants, "nodes": nodes}
    axes = {axis: sizes_of(axis, text) for axis, text in asked.items() if text}
    plan = growing.Plan(axes=axes, tasks=tasks, seconds=seconds, rounds=rounds)
    run_and_report(
        "As things grow",
        lambda stage, progress: growing.run(stage, plan, plot, progress),
        msgspec.to_builtins(plan),
        json,
    )


def steady(
    seconds: Annotated[float, typer.Option(min=1, help="Of load.")] = 1200.0,
    rate: Annotated[float, typer.Option(min=1, help="Tasks a second.")] = 10_000.0,
    window: Annotated[float, typer.Option(min=0.5, help="Seconds.")] = 10.0,
    every: Annotated[
        float, typer.Option(min=0, help="Seconds between open snapshots; 0: none.")
    ] = 120.0,
    held: Annotated[float, typer.Option(min=0, help="Seconds that a snapshot is open.")] = 30.0,
    json: Json = None,
    plot: Plots = None,
) -> None:
    """Measure a steady load by windows, with an open snapshot now and then.

    bench steady --seconds 600 --rate 20000 --plots docs/images
    """
    if seconds < window:
        raise typer.BadParameter("it must hold one --window at least", param_hint="--seconds")
    plan = lasting.Plan(
        seconds=seconds, rate=rate, window=window, snapshot_every=every, snapshot_seconds=held
    )
    run_and_report(
        f"{rate:g} tasks a second for {seconds:g} s",
        lambda stage, progress: lasting.run(stage, plan, plot, progress),
        msgspec.to_builtins(plan),
        json,
    )


def flame(
    file: Annotated[Path, typer.Argument(help="The SVG file to write.")],
    tasks: Annotated[int, typer.Option(min=1, help="To drain.")] = 200_000,
    json: Json = None,
) -> None:
    """Draw where the time of a node goes while it drains, by py-spy.

    bench flame docs/images/flame-node.svg
    """
    run_and_report(
        f"Stacks of a node, drawn in {file}",
        lambda stage, progress: burning.run(stage, tasks, file, progress),
        {"tasks": tasks},
        json,
    )


def sizes_of(axis: str, text: str) -> tuple[int, ...]:
    least, most = (1 if axis in ("tenants", "nodes") else 0), MOST[axis]
    try:
        sizes = tuple(int(part) for part in text.split(","))
    except ValueError:
        sizes = ()
    if not sizes or any(not least <= size <= most for size in sizes):
        raise typer.BadParameter(
            f"numbers from {least} to {most}, by commas, like 1,10", param_hint=f"--{axis}"
        )
    return sizes
