"""`gnomon worker`: a node that runs the handlers of an app, and nothing else."""

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from gnomon.cli.run import remote_worker
from gnomon.cli.run.processes import Slots, overrides, prepared, serve, started
from gnomon.cli.run.together import scraped_together
from gnomon.cli.shared.options import SETTINGS_VARIABLE, settings_file, settings_of
from gnomon.cli.shared.output import CommandFailed
from gnomon.settings import Settings, secret_variables

if TYPE_CHECKING:
    from gnomon.cli.run.live_line import Board, BoardPlace
    from gnomon.cli.run.supervise import Child
    from gnomon.observe.events import Observer
    from gnomon.sdk.app import Gnomon

MOST_PROCESSES = 64
_GRACE_SECONDS = 5.0  # beyond the time that a worker has to drain


def _place(text: str) -> "BoardPlace":
    from gnomon.cli.run.live_line import BoardPlace

    return BoardPlace.read(text)


AppPath = Annotated[str, typer.Argument(metavar="APP", help="The app, as module:attribute.")]
Processes = Annotated[
    int, typer.Option("--processes", min=1, max=MOST_PROCESSES, help="Run so many processes.")
]
Url = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="Address of an API to work for, without a database."),
]
Pipe = Annotated[
    str | None,
    typer.Option("--pipe", metavar="URL", help="A broker to work through, without a database."),
]
Reload = Annotated[
    bool, typer.Option("--reload", help="Start anew when the app's source files change.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only warnings and errors.")]
NoLine = Annotated[bool, typer.Option("--no-line", help="Draw no live line on a terminal.")]
# Of one of several processes: where it writes what their line tells.
LinePlace = Annotated[
    Any, typer.Option("--line-place", hidden=True, parser=_place, help="Where its line is told.")
]


def worker(
    ctx: typer.Context,
    app: AppPath,
    slots: Slots = None,
    processes: Processes = 1,
    url: Url = None,
    pipe: Pipe = None,
    reload: Reload = False,
    quiet: Quiet = False,
    no_line: NoLine = False,
    line_place: LinePlace = None,
) -> None:
    """Run the handlers of an app until SIGTERM or Ctrl-C, and drain.

    It uses DATABASE_URL, or the embedded server of `gnomon up` in the data directory. It runs
    only tasks of the app's own task types, registers these, and synchronises the app's cron jobs.

    With --url, or GNOMON_URL and no DATABASE_URL, it needs no database: it takes its tasks from
    that API, with a key that has the role `work`. With --pipe, or GNOMON_PIPE_URL and no
    DATABASE_URL, it takes them through that Redis, RabbitMQ or Kafka, and needs nothing else.

    \b
    gnomon worker shop:app
    gnomon worker shop:app --processes 4 --slots 50
    gnomon worker shop:app --url https://gnomon.example.com
    gnomon worker shop:app --pipe rediss://redis.example.com
    gnomon worker shop:app --pipe amqps://rabbitmq.example.com
    gnomon worker shop:app --reload
    """
    variables = _variables(ctx, slots, pipe, quiet=quiet)
    settings = settings_of(ctx, variables)
    line = not (quiet or no_line) and sys.stdout.isatty()
    gateway = remote_worker.remote_way(settings, url, pipe=pipe is not None)
    if gateway is None:
        dsn = prepared(settings)
        variables["DATABASE_URL"] = dsn
    else:
        remote_worker.prepare(settings)
        variables |= remote_worker.environ_of(settings, gateway)
    if processes == 1 and not reload:
        if gateway is None:
            _run(settings, dsn, app, line_place, line=line)
        else:
            remote_worker.run(settings, gateway, app, _loaded(app), line_place, line=line)
        return
    environ = {**os.environ, **variables}
    if gateway is not None:
        environ.pop("DATABASE_URL", None)
    raise typer.Exit(_supervise(settings, app, processes, environ, line=line, reload=reload))


def _variables(
    ctx: typer.Context, slots: int | None, pipe: str | None, *, quiet: bool
) -> dict[str, str]:
    """What the options say, as the environment of a process says it."""
    variables = overrides(slots=slots)
    if (file := settings_file(ctx)) is not None:
        variables[SETTINGS_VARIABLE] = str(file.resolve())
    if pipe is not None:
        variables[remote_worker.PIPE_VARIABLE] = pipe
    if quiet:
        variables["GNOMON_OUTPUT_LOG_LEVEL"] = "warning"
    return variables


def _run(
    settings: Settings, dsn: str, path: str, place: "BoardPlace | None", *, line: bool
) -> None:
    from gnomon.cli.run.live_line import LiveLine
    from gnomon.wiring.node_inputs import Served
    from gnomon.wiring.processes import run_node

    # Handlers run in this process and in children of it, and may show their environment.
    for name in secret_variables():
        os.environ.pop(name, None)
    app = _loaded(path)
    app.database = app.database or settings.database.handler_url
    _check_transactional(app)
    served = Served(webhooks=False, handlers=frozenset(app.handlers), registers=True)
    settings = _for(app, path, settings)
    told = started("worker", app=path, handlers=len(app.handlers))
    with contextlib.ExitStack() as stack:
        listeners: Sequence[Observer] = ()
        if line:
            shown = LiveLine(path, settings.node.slots, place)
            listeners = stack.enter_context(shown).listeners()
        running = run_node(settings, dsn, told, listeners=listeners, app=app, served=served)
        serve(running)


def _loaded(path: str) -> "Gnomon":
    """The app. CommandFailed where it cannot be had, or has nothing to run."""
    from gnomon.sdk.declaring.loading import load_app
    from gnomon.sdk.errors import AppNotLoaded

    try:
        app = load_app(path)
    except AppNotLoaded as error:
        raise CommandFailed(str(error)) from error
    if not app.handlers:
        raise CommandFailed(
            f"{path} has no handlers: write @app.task above a function that it is to run"
        )
    return app


def _check_transactional(app: "Gnomon") -> None:
    """CommandFailed where transactional handlers have no database."""
    from gnomon.sdk.errors import InvalidHandler
    from gnomon.sdk.executing.handler_database import check_address

    if any(handler.transactional for handler in app.handlers.values()):
        try:
            check_address(app.database)
        except InvalidHandler as error:
            raise CommandFailed(str(error)) from error


def _for(app: "Gnomon", path: str, settings: Settings) -> Settings:
    """The settings of a worker: it serves the app's tenant, unless told otherwise."""
    tenants = settings.node.serve_tenants or (app.tenant,)
    node = msgspec.structs.replace(settings.node, app=path, serve_tenants=tenants)
    # What is registered is checked by a second connection, while the first one holds it.
    connections = max(2, settings.database.connections)
    database = msgspec.structs.replace(settings.database, connections=connections)
    return msgspec.structs.replace(settings, node=node, database=database)


def _child(
    path: str, number: int, of: int, environ: dict[str, str], options: Sequence[str]
) -> "Child":
    from gnomon.cli.run.supervise import Child

    argv = [sys.executable, "-m", "gnomon", "worker", path, *options]
    name = "worker" if of == 1 else f"worker {number} of {of}"
    if of > 1 and (given := environ.get("GNOMON_NODE_NAME")):
        environ = {**environ, "GNOMON_NODE_NAME": f"{given}-{number}"}
    return Child(name, argv, environ)


def _supervise(
    settings: Settings, path: str, count: int, environ: dict[str, str], *, line: bool, reload: bool
) -> int:
    from gnomon.cli.run import supervise
    from gnomon.cli.run.live_line import DRAW_SECONDS, Board, BoardLine
    from gnomon.cli.run.sources import Sources

    stop_seconds = settings.node.drain_seconds + _GRACE_SECONDS
    with contextlib.ExitStack() as stack:
        interrupts = stack.enter_context(supervise.Interrupts())
        sources = tend = board = None
        if reload:
            sources = Sources(path, environ, Path.cwd(), lambda: interrupts.requested)
            if not sources.look():
                return 0 if interrupts.requested else 1  # the reason is told
        if line and count > 1:
            board = stack.enter_context(Board.made(count))
            tend = stack.enter_context(BoardLine(path, board)).tend
        environs = [environ] * count
        if count > 1:
            together = stack.enter_context(scraped_together(settings.output.metrics_socket))
            environs = [together(environ, str(n + 1)) for n in range(count)]
        children = [
            _child(path, n + 1, count, environs[n], _line_options(board, n, line=line))
            for n in range(count)
        ]
        return supervise.run(
            children,
            interrupts=interrupts,
            policy=supervise.Policy(stop_seconds=stop_seconds, together=True),
            changed=None if sources is None else sources.changed,
            tend=tend,
            tend_seconds=supervise.TEND_SECONDS if tend is None else DRAW_SECONDS,
        )


def _line_options(board: "Board | None", number: int, *, line: bool) -> list[str]:
    """What a child is told of the line: nothing where it draws its own."""
    if not line:
        return ["--no-line"]
    return [] if board is None else ["--line-place", str(board.place(number))]
