"""`make bench ARGS=peers`: see docs/proof/measuring.md."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.progress import Progress

from bench import report, running
from bench.peers import match as matching
from bench.peers import plots, tables
from bench.peers.contenders import GNOMON, PEERS
from bench.peers.installing import NotInstallable, install, is_installed
from bench.peers.measures import QUICK, Entry, Sizes
from bench.peers.quantities import Match
from bench.stage import Stage
from gnomon.store.embedded.tuning import SETTINGS

OWN_FAULT = 1


class Document(msgspec.Struct, frozen=True):
    """What `--json` writes and `--from` reads."""

    machine: dict[str, Any]
    postgresql: dict[str, str]
    match: Match


def peers(
    only: Annotated[
        list[str] | None,
        typer.Option(help=f"Beside Gnomon only this one; may be repeated: {', '.join(PEERS)}."),
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(help=f"Only this; may be repeated: {', '.join(matching.KINDS)}."),
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="3; with --quick 1.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small counts, one round.")] = False,
    tasks: Annotated[
        int | None, typer.Option(min=1, help="To drain, instead of 20 000 and 100 000.")
    ] = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="Try each one's settings first, and use the fastest.")
    ] = False,
    installing: Annotated[
        bool, typer.Option("--install/--no-install", help="Install what is missing.")
    ] = True,
    json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all values here.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plots", metavar="FOLDER", help="Draw SVG files here.")
    ] = None,
    earlier: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Show what an earlier run wrote instead."),
    ] = None,
) -> None:
    """Measure Gnomon and its peers in turn, each at its best settings, in one run.

    bench peers --quick --only river --only pgqueuer

    bench peers --json build/peers.json --plots docs/images

    bench peers --from build/peers.json --plots docs/images
    """
    if earlier is not None:
        document = msgspec.json.decode(earlier.read_bytes(), type=Document)
    else:
        names = _known(only, PEERS, "--only")
        kinds = _known(measure, matching.KINDS, "--measure")
        sizes = QUICK if quick else Sizes()
        if tasks is not None:
            sizes = msgspec.structs.replace(sizes, drains=(tasks,))
        ready, absent = _installed(names, installing=installing)
        document = _measure(ready, absent, sizes, kinds, rounds or (1 if quick else 3), tune=tune)
    _show(document, json, plot)


def _known(
    asked: Sequence[str] | None, known: Sequence[str] | dict[str, Any], hint: str
) -> list[str]:
    wanted = [name.replace("-", "_") for name in asked or known]
    if unknown := [name for name in wanted if name not in known]:
        raise typer.BadParameter(f"there is no {', '.join(unknown)}", param_hint=hint)
    return [name for name in known if name in wanted]


def _installed(names: Sequence[str], *, installing: bool) -> tuple[list[str], dict[str, str]]:
    """Who can take part, and why the others cannot."""
    absent: dict[str, str] = {}
    with Console(stderr=True).status("installing peers"):
        for name in names:
            try:
                if installing:
                    install(name)
                elif not is_installed(name):
                    absent[name] = "it is not installed: `make bench ARGS=peers` does that"
            except NotInstallable as error:
                absent[name] = f"it cannot be installed: {error}"
    return [name for name in names if name not in absent], absent


def _measure(
    names: Sequence[str],
    absent: dict[str, str],
    sizes: Sizes,
    kinds: Sequence[str],
    rounds: int,
    *,
    tune: bool,
) -> Document:
    contenders = [GNOMON, *(PEERS[name] for name in names)]

    async def work(stage: Stage, progress: Progress) -> Match:
        entries = [Entry(each, each.choices[0]) for each in contenders]
        if tune:
            entries = await matching.tuned(stage, contenders, progress)
        plan = matching.plan(sizes, kinds)
        return await matching.run(stage, entries, absent, sizes, plan, rounds, progress)

    facts, found = running.run(work)
    return Document(facts, dict(SETTINGS), found)


def _show(document: Document, json: Path | None, plot: Path | None) -> None:
    match = document.match
    print(tables.text(match))
    running.show_facts(Console(width=tables.WIDTH), document.machine)
    if json is not None:
        report.write_document(json, document)
    if plot is not None:
        plots.draw(match, plot)
    if faults := matching.own_faults(match):
        print("\n".join(["bench: Gnomon failed:", *faults]))
        raise typer.Exit(OWN_FAULT)
