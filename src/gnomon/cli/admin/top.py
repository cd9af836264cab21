"""`gnomon top`: what is going on, live in a terminal."""

import asyncio
import shutil
import sys
from datetime import UTC, timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnomon.cli.admin.top_screen import Snapshot, facts, screen
from gnomon.cli.shared import output, remote
from gnomon.cli.shared.options import ApiUrl, AsJson, settings_of
from gnomon.client.errors import ApiProblem, ApiUnreachable
from gnomon.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from rich.live import Live

    from gnomon.client.client import DocumentClient

_LOOKED_BACK = timedelta(minutes=2)
_PASSING = (
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)
_NOT_ALLOWED = (HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY)


def top(
    ctx: typer.Context,
    every: Annotated[
        float, typer.Option(min=1, max=60, metavar="SECONDS", help="Between two looks.")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print it once, and end.")] = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Show what is going on: rates, start delays, lanes, nodes, slow and failing task types.

    Of the tenant of the key; with an operator's key the nodes and the busiest tenants as well.
    Figures are of the last two minutes. Ctrl-C ends it. Without a terminal, or with --json, it is
    printed once.

    \b
    gnomon top
    gnomon top --once --json
    """
    address = remote.api_url(settings_of(ctx), api)
    if once or as_json or not sys.stdout.isatty():
        snapshot = remote.call(address, read)
        if as_json:
            output.document(facts(snapshot))
        else:
            size = shutil.get_terminal_size((output.PIPE_WIDTH, 200))
            for line in screen(snapshot, str(address), size.columns, 200):
                output.echo(line)
        return
    try:
        remote.call(address, lambda client: _follow(client, str(address), every))
    except KeyboardInterrupt:
        return


async def read(client: "DocumentClient") -> Snapshot:
    """One look. What the key may not see is left out."""
    now = SystemClock().now().astimezone(UTC)
    first = (now - _LOOKED_BACK).replace(second=0, microsecond=0)
    activity, stats, nodes, tenants = await asyncio.gather(
        client.get_activity(first=first, step=60),
        client.get_task_stats(),
        _if_allowed(client.list_nodes()),
        _if_allowed(client.get_tenant_activity(first=first, step=60)),
    )
    return Snapshot(at=now, activity=activity, stats=stats, nodes=nodes, tenants=tenants)


async def _if_allowed(asked: "Coroutine[Any, Any, Any]") -> Any:
    try:
        return await asked
    except ApiProblem as problem:
        if problem.status in _NOT_ALLOWED:
            return None
        raise


async def _follow(client: "DocumentClient", title: str, every: float) -> None:
    # Here and not above: few commands need it.
    from rich.console import Console
    from rich.live import Live

    console = Console()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        last: Snapshot | None = None
        while True:
            trouble = ""
            try:
                last = await read(client)
            except (ApiUnreachable, ApiProblem) as error:
                if last is None or not _passes(error):
                    raise
                trouble = f"the API does not answer, trying again: {error}"
            if last is not None:
                _draw(live, last, trouble or title)
            await SystemClock().sleep(every)


def _passes(error: ApiUnreachable | ApiProblem) -> bool:
    """Whether it is worth another look: PostgreSQL is away, or too much is asked at once."""
    return isinstance(error, ApiUnreachable) or error.status in _PASSING


def _draw(live: "Live", snapshot: Snapshot, title: str) -> None:
    from rich.text import Text

    size = live.console.size
    lines = screen(snapshot, title, size.width, size.height)
    live.update(Text("\n".join(lines), no_wrap=True), refresh=True)
