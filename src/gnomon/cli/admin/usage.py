"""`gnomon usage`: usage of a tenant, or of all tenants, by the day."""

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnomon.cli.shared import output, remote, values
from gnomon.cli.shared.options import ApiUrl, AsJson, settings_of

if TYPE_CHECKING:
    from gnomon.client.client import DocumentClient

_COLUMNS = ("day", "submissions", "executions", "compute_seconds", "stored_bytes")


def usage(
    ctx: typer.Context,
    first: Annotated[
        str | None, typer.Option("--from", metavar="DAY", help="The first day, like 2026-11-01.")
    ] = None,
    last: Annotated[
        str | None, typer.Option("--to", metavar="DAY", help="The last day; today, if left out.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: AsJson = False,
    everybody: Annotated[
        bool, typer.Option("--all", help="Of all tenants, as CSV; for operators.")
    ] = False,
    api: ApiUrl = None,
) -> None:
    """Show the usage by the day (UTC), of the last 30 days by default.

    Submissions, executions that have ended, the seconds that these took, and the bytes of
    payloads, results and responses that were written.

    \b
    gnomon usage
    gnomon usage --from 2026-11-01 --to 2026-11-30 --csv
    gnomon usage --all --from 2026-11-01 --to 2026-11-30
    """
    if as_csv and as_json:
        raise typer.BadParameter("give either --csv or --json")
    days = _day(first), _day(last)
    settings = settings_of(ctx)
    address = remote.api_url(settings, api)
    columns: Sequence[str] = ("tenant", *_COLUMNS) if everybody else _COLUMNS
    read = _of_all if everybody else _own
    rows = remote.call(address, lambda client: read(client, *days))
    as_csv = as_csv or (everybody and not as_json)
    _show(columns, rows, as_csv=as_csv, as_json=as_json)


def _show(
    columns: Sequence[str], rows: list[Sequence[Any]], *, as_csv: bool, as_json: bool
) -> None:
    if as_json:
        output.document({"usage": [dict(zip(columns, row, strict=True)) for row in rows]})
        return
    texts = [tuple(str(value) for value in row) for row in rows]
    if as_csv:
        for line in (tuple(columns), *texts):
            output.echo(",".join(line))
    elif not rows:
        output.note("nothing was used on these days")
    else:
        output.table(columns, texts)


def _day(text: str | None) -> date | None:
    return None if text is None else values.day(text)


async def _own(
    client: "DocumentClient", first: date | None, last: date | None
) -> list[Sequence[Any]]:
    found = await client.get_usage(first=first, last=last)
    return [tuple(day[column] for column in _COLUMNS) for day in found["usage"]]


async def _of_all(
    client: "DocumentClient", first: date | None, last: date | None
) -> list[Sequence[Any]]:
    columns = ("tenant_id", *_COLUMNS)
    found = client.list_tenant_usage(first=first, last=last)
    return [tuple(day[column] for column in columns) async for day in found]
