"""`gnomon breakers`: hosts that are not called for now, and what waits for them."""

from typing import Any

import typer

from gnomon.cli.shared import output, remote
from gnomon.cli.shared.options import ApiUrl, AsJson, settings_of
from gnomon.cli.shared.output import second
from gnomon.cli.shared.tables import Column, Fit

_COLUMNS = (
    Column("of", Fit.NAME),
    Column("state", Fit.WHOLE),
    Column("waiting", Fit.WHOLE),
    Column("since", Fit.WHOLE, rank=2),
    Column("next try", Fit.WHOLE),
    Column("failed", Fit.WHOLE, rank=3),
    Column("nodes", rank=4),
    Column("last error", rank=1),
)


def breakers(ctx: typer.Context, as_json: AsJson = False, api: ApiUrl = None) -> None:
    """List the breakers that are open, why, and how many due tasks wait for each.

    \b
    gnomon breakers
    gnomon breakers --json
    """
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(address, lambda client: client.list_breakers(), _table, as_json=as_json)


def _table(answer: dict[str, Any]) -> None:
    if not answer["breakers"]:
        output.note("no breaker is open")
        return
    output.table(_COLUMNS, [_line(each) for each in answer["breakers"]])


def _line(each: dict[str, Any]) -> tuple[str, ...]:
    waiting = each["waiting"]
    return (
        "all tasks" if each["host"] is None else f"host {each['host']}",
        each["state"].replace("_", " "),
        f"{waiting['count']}{'+' if waiting['capped'] else ''}",
        "" if each["opened_at"] is None else second(each["opened_at"]),
        second(each["next_try_at"]),
        "" if each["calls"] is None else f"{each['failures']} of {each['calls']}",
        ", ".join(each["nodes"]),
        each["error"] or "",
    )
