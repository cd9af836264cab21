"""`gnomon bench`: how fast Gnomon is on this machine and this PostgreSQL."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnomon import loop
from gnomon.cli.shared import database, output
from gnomon.cli.shared.options import AsJson, Yes, settings_of
from gnomon.cli.shared.output import CommandFailed
from gnomon.cli.shared.tables import Column, Fit
from gnomon.settings import Settings

if TYPE_CHECKING:
    from gnomon.bench.results import Findings, Measure
    from gnomon.bench.server import BenchServer
    from gnomon.bench.sizes import Sizes

PARTS = ("submit", "drain", "latency", "sustained")
MOST_TASKS = 1_000_000
MOST_SECONDS = 300.0
_INTERRUPTED = 130
_held: list[int] = []  # signals that came while a server was started

Tasks = Annotated[int, typer.Option(min=1, max=MOST_TASKS, help="To drain.")]
Seconds = Annotated[
    float, typer.Option(min=0.1, max=MOST_SECONDS, help="Of each measure that goes by time.")
]
Only = Annotated[
    list[str] | None, typer.Option(help=f"One of {', '.join(PARTS)}; may be repeated.")
]


def bench(
    ctx: typer.Context,
    tasks: Tasks = 20_000,
    seconds: Seconds = 5.0,
    only: Only = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Measure Gnomon on this machine, with the PostgreSQL of DATABASE_URL, or with a new one.

    It makes a database of its own on that server and drops it at its end, also when it is stopped:
    none of your tasks is touched. It takes about a minute, 1 kB of disk a task (at most a
    million in a measure), and all the processor time that it can get, so the work of others is
    slower meanwhile. API and node run on this machine with default settings.

    \b
    gnomon bench
    gnomon bench --only drain --tasks 100000
    DATABASE_URL=postgresql://db.example/gnomon gnomon bench --json
    """
    from gnomon.bench.sizes import Sizes

    if unknown := sorted(set(only or ()) - set(PARTS)):
        raise typer.BadParameter(
            f"there is no {', '.join(unknown)}; there are {', '.join(PARTS)}", param_hint="--only"
        )
    sizes = Sizes(tasks=tasks, seconds=seconds, most=MOST_TASKS, idle=100, rounds=3)
    names = [name for name in PARTS if not only or name in only]
    with _server(settings_of(ctx)) as server:
        facts, findings = _measured(server, sizes, names, yes=yes)
    _show(facts, sizes, findings, as_json=as_json)


@contextmanager
def _server(settings: Settings) -> "Iterator[BenchServer]":
    """The server of DATABASE_URL; without one, an embedded one that is removed again: that of
    `gnomon up` is for its tasks."""
    from tempfile import TemporaryDirectory

    from gnomon.bench.server import DATABASE, BenchServer, may_create_databases

    database.check_address(settings)
    dsn = settings.database.direct_url or settings.database.url
    with TemporaryDirectory(prefix="gnomon-bench-") as name:
        folder = Path(name)
        if dsn is not None:
            yield BenchServer(dsn, folder)
            return
        output.live("starting a PostgreSQL for the measures: there is no DATABASE_URL", new=True)
        with _own_server(Path(settings.database.data_dir) / DATABASE) as embedded:
            loop.run(may_create_databases(embedded.superuser_dsn))
            yield BenchServer(embedded.dsn, folder, is_ours=True)


@contextmanager
def _own_server(folder: Path) -> Iterator[Any]:
    """A PostgreSQL that is removed again. Its folder is always the same: the server of a run that
    was killed is stopped by the next one. All in it is removed, so it has a name like no other."""
    import signal

    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:  # until the measures have handlers of their own, which look at these
        signal.signal(number, lambda number, _: _held.append(number))
    with ExitStack() as afterwards, database.embedded(folder) as embedded:
        afterwards.callback(_empty, folder)
        try:
            yield embedded
        finally:
            for number in numbers:  # let it stop
                signal.signal(number, signal.SIG_IGN)


def _empty(folder: Path) -> None:
    """Remove all but the lock, unless another run has it by now."""
    import shutil

    from gnomon.store.embedded import EmbeddedError
    from gnomon.store.embedded.lock import DirectoryLock

    lock = DirectoryLock(folder)
    try:
        lock.acquire()
    except EmbeddedError:
        return
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name != "lock":
            entry.unlink()
    lock.release()


def _measured(
    server: "BenchServer", sizes: "Sizes", names: Sequence[str], *, yes: bool
) -> "tuple[dict[str, Any], Findings]":
    from gnomon.bench.machine import machine
    from gnomon.bench.results import BenchError
    from gnomon.observe import logging
    from gnomon.settings import OutputSettings

    logging.configure(OutputSettings(log_level="warning"))
    facts = machine()
    try:
        facts["postgresql"] = loop.run(server.check())
        if (nodes := loop.run(server.nodes())) != 0 and not yes:
            told = "unknown to this role" if nodes is None else nodes
            output.confirm(f"nodes that work on this database: {told}. Slow them down for a while?")
        return facts, loop.run(_unless_stopped(server, sizes, names))
    except BenchError as error:
        raise CommandFailed(str(error)) from error


async def _unless_stopped(
    server: "BenchServer", sizes: "Sizes", names: Sequence[str]
) -> "Findings":
    """What the parts find. Ctrl-C and SIGTERM end it, when the database for measures is dropped."""
    from gnomon.bench import suite
    from gnomon.wiring.run_process import stop_on_signals

    number = 0
    found: list[Findings] = []

    def begins(description: str) -> None:
        nonlocal number
        number += 1
        output.live(f"{number} of {len(names)}: {description}", new=True)

    async def measure() -> None:
        parts = [suite.PARTS[name] for name in names]
        async with server.reserved():
            found.append(await suite.run(server, sizes, parts, begins))

    stop = stop_on_signals()
    if _held:
        stop.set()
    ended = await loop.unless(stop.wait(), measure())
    output.live_end()
    if not ended:
        output.note("stopped; nothing is left on the server")
        raise typer.Exit(_INTERRUPTED)
    return found[0]


def _show(facts: dict[str, Any], sizes: "Sizes", findings: "Findings", *, as_json: bool) -> None:
    if as_json:
        measures = [
            {"name": m.name, "title": m.title, "value": m.value, "unit": m.unit, "note": m.note}
            for m in findings.measures
        ]
        tasks = findings.tallies
        output.document({"machine": facts, "sizes": sizes, "measures": measures, "tasks": tasks})
        return
    columns = [Column("MEASURE", Fit.NAME), Column("VALUE", Fit.WHOLE), Column("HOW", rank=1)]
    output.table(columns, map(_row, findings.measures))
    output.paragraph(", ".join(f"{name} {value}" for name, value in facts.items()))


def _row(measure: "Measure") -> list[str]:
    from gnomon.bench.results import number

    value = "" if measure.value is None else f"{number(measure.value)} {measure.unit}"
    return [measure.title, value, measure.note]
