"""`gnomon usage`: what a tenant used, by the day, or what all of them did."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnomon import loop
from gnomon.cli.shared import database, output, remote, values
from gnomon.cli.shared.options import ApiUrl, AsJson, settings_of
from gnomon.cli.shared.output import CommandFailed

if TYPE_CHECKING:
    from gnomon.client.client import Client

_COLUMNS = ("day", "submissions", "executions", "compute_seconds", "stored_bytes")
_DEFAULT_DAYS = 30


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
        bool, typer.Option("--all", help="Of all tenants, as CSV, from the database itself.")
    ] = False,
    api: ApiUrl = None,
) -> None:
    """Show what was used, by the day (UTC): by default, of the last 30 days.

    Submissions, executions (tries that have ended), the seconds that these took, and the bytes of
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
    if everybody:
        columns: Sequence[str] = ("tenant", *_COLUMNS)
        rows = loop.run(_of_all(database.existing_dsn(settings), *days))
        as_csv = not as_json
    else:
        columns = _COLUMNS
        rows = remote.call(remote.api_url(settings, api), lambda client: _own(client, *days))
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


async def _own(client: "Client", first: date | None, last: date | None) -> list[Sequence[Any]]:
    asked = {"from": first, "to": last}
    found = await client.usage({k: day.isoformat() for k, day in asked.items() if day is not None})
    return [tuple(day[column] for column in _COLUMNS) for day in found["usage"]]


async def _of_all(dsn: str, first: date | None, last: date | None) -> list[Sequence[Any]]:
    import asyncpg

    from gnomon.store.postgres.queries import query

    async with database.connection(dsn) as connection:
        try:
            last = last or await connection.fetchval(query("usage_day"))
            first = first or last - timedelta(days=_DEFAULT_DAYS - 1)
            rows = await connection.fetch(query("usage_of_all"), first, last)
        except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError) as error:
            raise CommandFailed("the schema is not there yet; run `gnomon migrate`") from error
    return [tuple(row) for row in rows]
