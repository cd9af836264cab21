"""`gnomon up`: everything on this machine, with one command."""

import os
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from gnomon import loop
from gnomon.cli.run.keyring import check_setting
from gnomon.cli.run.processes import Port, Slots, overrides
from gnomon.cli.run.sources import Sources
from gnomon.cli.run.together import Together, scraped_together
from gnomon.cli.run.worker import Reload
from gnomon.cli.shared import database, output, remote
from gnomon.cli.shared.options import SETTINGS_VARIABLE, settings_file, settings_of
from gnomon.cli.shared.output import CommandFailed
from gnomon.sdk.submitting import local_address
from gnomon.settings import Settings
from gnomon.version import VERSION

if TYPE_CHECKING:
    from gnomon.cli.run.supervise import Child, Interrupts

READY_TIMEOUT_SECONDS = 1.0

BANNER = """
Gnomon {version} is up. Ctrl-C stops it.

  dashboard  {url}/
  API        {url}/api/v1
  API docs   {url}/api/v1/docs
  data       {data}

Run `gnomon listen` in another terminal, and send it a task:

  curl -s {url}/api/v1/tasks -H 'content-type: application/json' \\{key}
    -d '{{"task_type": "hello", "callback_url": "http://127.0.0.1:9000/", "payload": {{"n": 1}}}}'
"""

# Where authentication is on; the key is one of `gnomon keys create`.
_KEY = """
    -H "Authorization: Bearer $GNOMON_API_KEY" \\"""


def up(
    ctx: typer.Context,
    port: Port = None,
    data_dir: Annotated[
        str | None, typer.Option(metavar="DIR", help="Data of the embedded PostgreSQL.")
    ] = None,
    slots: Slots = None,
    app: Annotated[
        str | None,
        typer.Option(metavar="APP", help="Run a worker for this app, as module:attribute."),
    ] = None,
    reload: Reload = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only warnings and errors.")
    ] = False,
) -> None:
    """Run everything: PostgreSQL (unless DATABASE_URL is set), the API and a node.

    With --app also a worker for the handlers of that app.

    \b
    gnomon up
    gnomon up --app shop:app --reload
    gnomon up --port 8081 --data-dir /var/lib/gnomon --slots 2000
    DATABASE_URL=postgresql://localhost/gnomon gnomon up
    """
    import gnomon.store.postgres.identity.installation  # noqa: F401 - the extra is asked for first
    from gnomon.cli.run.supervise import Interrupts

    if reload and app is None:
        raise typer.BadParameter("--reload is for --app")
    variables = overrides(port=port, slots=slots, data_dir=data_dir) | _variables(ctx, quiet=quiet)
    settings = settings_of(ctx, variables)
    check_setting(settings)
    _check_not_running(settings)
    api = msgspec.structs.replace(settings.api, port=_free_port(settings))
    settings = msgspec.structs.replace(settings, api=api)
    variables["GNOMON_API_PORT"] = str(api.port)
    with Interrupts() as interrupts:
        worker = () if app is None else (app, *(["--reload"] if reload else []))
        if app is not None:
            environ = {**os.environ, **variables}
            sources = Sources(app, environ, Path.cwd(), lambda: interrupts.requested)
            if not sources.look():
                raise typer.Exit(0 if interrupts.requested else 1)  # the reason is told
        code = _up(settings, variables, interrupts, worker, quiet=quiet)
    if not quiet:
        output.note("Gnomon has stopped.")
    raise typer.Exit(code)


def _variables(ctx: typer.Context, *, quiet: bool) -> dict[str, str]:
    """What the processes are told beside the options of the command."""
    variables = {"GNOMON_OUTPUT_LOG_LEVEL": "warning"} if quiet else {}
    if (file := settings_file(ctx)) is not None:
        variables[SETTINGS_VARIABLE] = str(file.resolve())
    return variables


def _up(
    settings: Settings,
    variables: dict[str, str],
    interrupts: "Interrupts",
    worker: tuple[str, ...],
    *,
    quiet: bool,
) -> int:
    from gnomon.cli.run import supervise
    from gnomon.observe import logging
    from gnomon.store.postgres.identity.installation import agreed

    logging.configure(settings.output)
    with ExitStack() as stack:
        tend = None
        database.check_address(settings)
        dsn = settings.database.url
        if dsn is None:
            server = stack.enter_context(database.embedded(Path(settings.database.data_dir)))
            dsn, tend = server.dsn, server.tend
        preparing = database.prepare(settings.database.direct_url or dsn)
        if not loop.run(loop.unless(interrupts.arrived(), preparing)):
            return 0
        _check_authentication(loop.run(agreed(settings, dsn)))
        variables = {**os.environ, **variables, "DATABASE_URL": dsn}
        for name in ("GNOMON_API_KEY", "GNOMON_API_KEY_FILE"):  # for commands, not for servers
            variables.pop(name, None)
        return supervise.run(
            _children(settings, variables, worker, stack.enter_context(scraped_together())),
            on_ready=partial(_on_ready, settings, stack, quiet=quiet),
            tend=tend,
            interrupts=interrupts,
            policy=supervise.Policy(stop_seconds=settings.node.drain_seconds + 10.0),
        )


def _children(
    settings: Settings, environ: dict[str, str], worker: tuple[str, ...], together: Together
) -> list["Child"]:
    from gnomon.cli.run.supervise import Child

    program = [sys.executable, "-m", "gnomon"]
    children = [
        Child("api", [*program, "api"], together(environ, "api"), ready=partial(_ready, settings)),
        Child("scheduler", [*program, "scheduler"], together(environ, "scheduler")),
    ]
    if worker:
        # Its own processes share this terminal, so none of them draws a line on it.
        argv = [*program, "worker", *worker, "--no-line"]
        children.append(Child("worker", argv, together(environ, "worker")))
    return children


def _check_not_running(settings: Settings) -> None:
    """CommandFailed if `gnomon up` runs in this data directory already: where, and what to do."""
    folder = Path(settings.database.data_dir)
    if (url := local_address.found(folder)) is not None:
        raise CommandFailed(
            f"gnomon is already up, at {url} (data in {folder.resolve()}); stop that one first, or "
            "give this one another --data-dir and --port"
        )


def _free_port(settings: Settings) -> int:
    """The port that the API will get. CommandFailed, before anything is started, if it is taken."""
    import socket

    host, port = settings.api.host, settings.api.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family) as probe:
            if settings.auth.enabled is False:
                _check_loopback(probe.getsockname()[0])
            return int(probe.getsockname()[1])
    except OSError as error:
        raise CommandFailed(
            f"the API cannot listen on {host} port {port}: {error.strerror}; "
            "choose another port with --port, or GNOMON_API_PORT"
        ) from error


def _check_authentication(settings: Settings) -> None:
    """CommandFailed if the API may not listen on its address without authentication."""
    import socket

    if not settings.auth.enabled:
        where = socket.getaddrinfo(settings.api.host, settings.api.port, type=socket.SOCK_STREAM)
        _check_loopback(str(where[0][4][0]))


def _check_loopback(address: str) -> None:
    # The API refuses by itself too; here it is one line, before anything is started.
    import ipaddress

    if not ipaddress.ip_address(address).is_loopback:
        raise CommandFailed(
            f"without authentication the API listens only on loopback, not on {address}; "
            "set auth.enabled to true (GNOMON_AUTH_ENABLED=true), or api.host to 127.0.0.1"
        )


def _ready(settings: Settings) -> bool:
    import http.client

    address = remote.api_url(settings, None).url.removeprefix("http://")
    connection = http.client.HTTPConnection(address, timeout=READY_TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _on_ready(settings: Settings, stack: ExitStack, *, quiet: bool) -> None:
    if settings.database.url is None:
        # Programs in this folder find the API by it.
        url = remote.api_url(settings, None).url
        stack.enter_context(local_address.told(Path(settings.database.data_dir), url))
    if not quiet:
        _announce(settings)


def _announce(settings: Settings) -> None:
    own = settings.database.url is not None
    output.note(
        BANNER.format(
            version=VERSION,
            url=remote.api_url(settings, None),
            key=_KEY if settings.auth.enabled else "",
            data="in your PostgreSQL (DATABASE_URL)"
            if own
            else Path(settings.database.data_dir).resolve(),
        )
    )
