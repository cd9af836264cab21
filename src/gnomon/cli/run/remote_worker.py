"""`gnomon worker --url` and `--pipe`: a worker without a database, which talks to a gateway over
HTTP or through a broker."""

import contextlib
import importlib.util
import os
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from gnomon import loop
from gnomon.cli.run.processes import started
from gnomon.cli.shared.options import API_VARIABLE
from gnomon.cli.shared.output import CommandFailed
from gnomon.model.errors import GnomonError
from gnomon.settings import Settings, SettingsError, secret_variables

if TYPE_CHECKING:
    from gnomon.cli.run.live_line import BoardPlace
    from gnomon.client.http import ApiServer
    from gnomon.observe.events import Observer
    from gnomon.sdk.app import Gnomon

KEY_VARIABLE = "GNOMON_API_KEY"
PIPE_VARIABLE = "GNOMON_PIPE_URL"


class GatewayWay(NamedTuple):
    """How a worker without a database reaches a gateway."""

    url: str  # without secrets
    through_pipe: bool


def remote_way(settings: Settings, url: str | None, *, pipe: bool) -> GatewayWay | None:
    """The way to the gateway; None: the worker has a database. `url` and `pipe`: the command says
    so. Raises CommandFailed."""
    from gnomon.client.client import url_of

    if url and pipe:
        raise CommandFailed("--url and --pipe are two ways to the same: give one of them")
    no_database = settings.database.url is None
    if pipe or (no_database and not url and settings.pipe.url is not None):
        place = settings.pipe.place
        if importlib.util.find_spec(place.client) is None:
            raise CommandFailed(f"--pipe needs {place}: pip install 'gnomon[worker,{place}]'")
        return GatewayWay(settings.pipe.where, through_pipe=True)
    asked = url or (os.environ.get(API_VARIABLE) if no_database else None)
    if not asked:
        return None
    try:
        return GatewayWay(url_of(asked), through_pipe=False)
    except ValueError as error:
        raise CommandFailed(f"--url (or {API_VARIABLE}): {error}") from error


def environ_of(settings: Settings, way: GatewayWay) -> dict[str, str]:
    """The variables by which a process of this worker finds the gateway."""
    if not way.through_pipe:
        return _of_handlers(settings, way)
    assert settings.pipe.url is not None
    return {**_of_handlers(settings, way), PIPE_VARIABLE: settings.pipe.url}


def _of_handlers(settings: Settings, way: GatewayWay) -> dict[str, str]:
    """Those that handlers submit by. Behind a broker they need an address of the API besides."""
    key = {} if settings.api.key is None else {KEY_VARIABLE: settings.api.key}
    return key if way.through_pipe else {API_VARIABLE: way.url, **key}


def prepare(settings: Settings) -> None:
    """Set up the log."""
    from gnomon.node.run.handler_log import HandlerScope
    from gnomon.observe import logging

    logging.configure(settings.output, HandlerScope(settings.output))


def run(
    settings: Settings,
    way: GatewayWay,
    path: str,
    app: "Gnomon",
    place: "BoardPlace | None",
    *,
    line: bool,
) -> None:
    """Run the worker in this process, to its end."""
    from gnomon.cli.run.live_line import LiveLine
    from gnomon.wiring.remote import run_remote

    # The key stays: handlers submit with it, in this process and in children of it.
    for name in secret_variables():
        if name not in (KEY_VARIABLE, f"{KEY_VARIABLE}_FILE"):
            os.environ.pop(name, None)
    os.environ |= _of_handlers(settings, way)
    node = msgspec.structs.replace(settings.node, app=path)
    settings = msgspec.structs.replace(settings, node=node)
    told = started("worker", app=path, handlers=len(app.handlers))
    with contextlib.ExitStack() as stack:
        listeners: Sequence[Observer] = ()
        if line:
            shown = LiveLine(path, settings.node.slots, place)
            listeners = stack.enter_context(shown).listeners()
        _serve(run_remote(settings, _connect(settings, way), told, app, listeners=listeners))


def _connect(settings: Settings, way: GatewayWay) -> "Callable[[], ApiServer]":
    """Gives the API, by this way. Each event loop has a connection of its own through a broker; all
    of them choose the same gateway."""
    from gnomon.client.client import TIMEOUT_SECONDS
    from gnomon.client.http import ApiServer

    server = ApiServer(way.url, settings.api.key, TIMEOUT_SECONDS)
    if not way.through_pipe:
        return lambda: server
    from gnomon.clock import SystemClock, new_secret
    from gnomon.remote.pipe_transport import PipeTransport

    preference = new_secret(8)

    def connected() -> ApiServer:
        transport = PipeTransport(settings.pipe, SystemClock(), preference)
        return msgspec.structs.replace(server, async_transport=transport)

    return connected


def _serve(work: Coroutine[Any, Any, None]) -> None:
    """Run it to its end. Expected errors become CommandFailed."""
    try:
        loop.serve(work)
    except (GnomonError, SettingsError) as error:
        raise CommandFailed(str(error)) from error
    except ExceptionGroup as group:
        wrong: BaseException = group
        while isinstance(wrong, ExceptionGroup) and len(wrong.exceptions) == 1:
            wrong = wrong.exceptions[0]
        if not isinstance(wrong, SettingsError | GnomonError):
            raise
        raise CommandFailed(str(wrong)) from group
