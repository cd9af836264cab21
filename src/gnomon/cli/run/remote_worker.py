"""`gnomon worker --url`: a worker without a database, which talks to a gateway over HTTP."""

import contextlib
import os
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from gnomon import loop
from gnomon.cli.run.processes import started
from gnomon.cli.shared.options import API_VARIABLE
from gnomon.cli.shared.output import CommandFailed
from gnomon.model.errors import GnomonError
from gnomon.settings import Settings, SettingsError, secret_variables

if TYPE_CHECKING:
    from gnomon.cli.run.live_line import BoardPlace
    from gnomon.observe.events import Observer
    from gnomon.sdk.app import Gnomon

KEY_VARIABLE = "GNOMON_API_KEY"


def remote_url(settings: Settings, given: str | None) -> str | None:
    """The address of the gateway; None: the worker has a database. Raises CommandFailed."""
    from gnomon.client.client import url_of

    asked = given or (os.environ.get(API_VARIABLE) if settings.database.url is None else None)
    if not asked:
        return None
    try:
        return url_of(asked)
    except ValueError as error:
        raise CommandFailed(f"--url (or {API_VARIABLE}): {error}") from error


def environ_of(settings: Settings, url: str) -> dict[str, str]:
    """The variables by which a process of this worker, and what its handlers submit, find the
    API."""
    key = {} if settings.api.key is None else {KEY_VARIABLE: settings.api.key}
    return {API_VARIABLE: url, **key}


def prepare(settings: Settings) -> None:
    """Set up the log."""
    from gnomon.node.run.handler_log import HandlerScope
    from gnomon.observe import logging

    logging.configure(settings.output, HandlerScope(settings.output))


def run(
    settings: Settings,
    url: str,
    path: str,
    app: "Gnomon",
    place: "BoardPlace | None",
    *,
    line: bool,
) -> None:
    """Run the worker in this process, to its end."""
    from gnomon.cli.run.live_line import LiveLine
    from gnomon.client.client import TIMEOUT_SECONDS
    from gnomon.client.http import ApiServer
    from gnomon.wiring.remote import run_remote

    # The key stays: handlers submit with it, in this process and in children of it.
    for name in secret_variables():
        if name not in (KEY_VARIABLE, f"{KEY_VARIABLE}_FILE"):
            os.environ.pop(name, None)
    os.environ |= environ_of(settings, url)
    node = msgspec.structs.replace(settings.node, app=path)
    settings = msgspec.structs.replace(settings, node=node)
    server = ApiServer(url, settings.api.key, TIMEOUT_SECONDS)
    told = started("worker", app=path, handlers=len(app.handlers))
    with contextlib.ExitStack() as stack:
        listeners: Sequence[Observer] = ()
        if line:
            shown = LiveLine(path, settings.node.slots, place)
            listeners = stack.enter_context(shown).listeners()
        _serve(run_remote(settings, server, told, app, listeners=listeners))


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
