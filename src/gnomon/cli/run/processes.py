"""`gnomon api` and `gnomon scheduler`: one process each, on a database that is running."""

import os
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import typer

from gnomon import loop
from gnomon.cli.run.keyring import check_setting
from gnomon.cli.shared import database
from gnomon.cli.shared.options import settings_of
from gnomon.cli.shared.output import CommandFailed
from gnomon.model.errors import GnomonError
from gnomon.settings import Settings, SettingsError, secret_variables

Slots = Annotated[int | None, typer.Option(min=1, help="Tasks that run at once in a node.")]
ServeTenant = Annotated[
    list[str] | None, typer.Option("--serve-tenant", help="Run only this tenant's tasks.")
]
ServeType = Annotated[
    list[str] | None, typer.Option("--serve-type", help="Run only tasks of this type.")
]
ServeQueue = Annotated[
    list[str] | None, typer.Option("--serve-queue", help="Run only tasks of this queue.")
]
ServeLane = Annotated[
    list[str] | None, typer.Option("--serve-lane", help="Run only tasks of this priority.")
]
Port = Annotated[
    int | None, typer.Option(min=0, max=65535, help="Port of the API; 0 picks a free one.")
]


def api(ctx: typer.Context, port: Port = None) -> None:
    """Run one API process until SIGTERM or Ctrl-C.

    It uses DATABASE_URL, or the embedded server of `gnomon up` in the data directory.

    \b
    DATABASE_URL=postgresql://localhost/gnomon gnomon api --port 8081
    """
    from gnomon.wiring.processes import run_api

    settings = settings_of(ctx, overrides(port=port))
    dsn = prepared(settings)
    serve(run_api(settings, dsn, started("api")))


def scheduler(
    ctx: typer.Context,
    slots: Slots = None,
    serve_tenant: ServeTenant = None,
    serve_type: ServeType = None,
    serve_queue: ServeQueue = None,
    serve_lane: ServeLane = None,
) -> None:
    """Run one scheduler node until SIGTERM or Ctrl-C. Start several to run more tasks.

    With --serve-… it runs only tasks that match every kind of option given. Each of
    these options may be repeated.

    \b
    DATABASE_URL=postgresql://localhost/gnomon gnomon scheduler --slots 2000
    gnomon scheduler --serve-tenant acme
    """
    from gnomon.wiring.processes import run_node

    pool = _pool(tenants=serve_tenant, types=serve_type, queues=serve_queue, lanes=serve_lane)
    settings = settings_of(ctx, overrides(slots=slots) | pool)
    # Functions run in this process and in children of it, and may show their environment.
    for name in secret_variables():
        os.environ.pop(name, None)
    dsn = prepared(settings)
    serve(run_node(settings, dsn, started("node")))


def _pool(**lists: list[str] | None) -> dict[str, str]:
    """The options of a worker pool as the variables that set the same."""
    return {f"GNOMON_NODE_SERVE_{name.upper()}": ",".join(of) for name, of in lists.items() if of}


def overrides(
    *, port: int | None = None, slots: int | None = None, data_dir: str | None = None
) -> dict[str, str]:
    """Flags as the variables that set the same."""
    flags = {
        "GNOMON_API_PORT": port,
        "GNOMON_NODE_SLOTS": slots,
        "GNOMON_DATABASE_DATA_DIR": data_dir,
    }
    return {name: str(value) for name, value in flags.items() if value is not None}


def prepared(settings: Settings) -> str:
    """The address of the database, once the log is set up."""
    from gnomon.node.run.handler_log import HandlerScope
    from gnomon.observe import logging

    check_setting(settings)
    logging.configure(settings.output, HandlerScope(settings.output))
    return database.existing_dsn(settings)


def started(what: str, **about: object) -> Callable[[str], None]:
    """Tells that it has, and where."""
    import structlog

    log = structlog.get_logger()

    def tell(where: str) -> None:
        log.info(f"{what} started", where=where, **about)

    return tell


def serve(work: Coroutine[Any, Any, None]) -> None:
    """Run it to its end. Expected errors become CommandFailed."""
    from gnomon.store.postgres.migrate import MigrationError

    try:
        loop.serve(work)
    except MigrationError as error:
        raise CommandFailed(str(error)) from error
    except ExceptionGroup as group:
        # A task group raises a group, even when only one thing is wrong.
        wrong = group.exceptions[0]
        if len(group.exceptions) > 1 or not isinstance(wrong, SettingsError | GnomonError):
            raise
        raise CommandFailed(str(wrong)) from group
