"""`gnomon events`: missed SLAs of cron jobs, breakers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gnomon.cli.shared import output, remote
from gnomon.cli.shared.options import ApiUrl, AsJson, Everything, Limit, settings_of
from gnomon.cli.shared.output import compact, second
from gnomon.cli.shared.tables import Column, Fit
from gnomon.cli.tasks import views

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json
    from gnomon.client.client import DocumentClient

_COLUMNS = (
    Column("at", Fit.WHOLE),
    Column("kind", Fit.WHOLE),
    Column("job", rank=1),
    Column("task", Fit.ID, rank=2),
    Column("detail"),
)


def events(
    ctx: typer.Context,
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help="Only these, like cron.sla_missed.")
    ] = None,
    limit: Limit = 50,
    everything: Everything = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """List events, newest first: cron runs that missed their SLA, breakers.

    \b
    gnomon events
    gnomon events --kind cron.sla_missed --json
    """
    filters = {} if kind is None else {"kind": kind}

    async def run(client: "DocumentClient") -> None:
        found = client.list_events(**filters, limit=None if everything else limit)
        await (output.stream("events", found) if as_json else views.in_pieces(found, _rows))

    remote.call(remote.api_url(settings_of(ctx), api), run)


def _rows(events: Sequence["Json"]) -> None:
    output.table(
        _COLUMNS,
        [
            (
                second(event["at"]),
                event["kind"],
                event["detail"].get("cron_job") or event["cron_job_id"] or "",
                event["task_id"] or "",
                _detail(event["detail"]),
            )
            for event in events
        ],
    )


def _detail(detail: "Json") -> str:
    """Fields that have no column of their own, without those that are null or zero."""
    shown = ((name, value) for name, value in detail.items() if name != "cron_job" and value)
    return " ".join(
        f"{name}={value if isinstance(value, str) else compact(value)}" for name, value in shown
    )
