"""`gnomon levels`: how many tasks kept their service levels, by the week."""

from typing import TYPE_CHECKING, Annotated

import typer

from gnomon.cli.shared import output, remote
from gnomon.cli.shared.options import ApiUrl, AsJson, settings_of
from gnomon.cli.shared.tables import Column, Fit
from gnomon.model.csv_lines import csv_of

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json
    from gnomon.client.client import DocumentClient

_COLUMNS = (
    Column("week", Fit.WHOLE),
    Column("task type"),
    Column("job", rank=1),
    Column("started", Fit.WHOLE),
    Column("late", Fit.WHOLE),
    Column("on time", Fit.WHOLE),
    Column("ran", Fit.WHOLE, rank=2),
    Column("slow", Fit.WHOLE),
    Column("swift", Fit.WHOLE),
)
_OF_CSV = (
    "week", "task_type", "cron_job_id", "cron_job", "start_kept", "start_missed", "start_share",
    "run_kept", "run_missed", "run_share",
)  # fmt: skip


def levels(
    ctx: typer.Context,
    weeks: Annotated[
        int, typer.Option(min=1, max=106, help="So many weeks, with the present one.")
    ] = 4,
    task_type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Only of this task type.")
    ] = None,
    job: Annotated[
        str | None, typer.Option(metavar="JOB", help="Only of this cron job: its name or id.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Show how many tasks kept their service levels, by the week.

    A task keeps the first level where it started within its sla, and the second where no execution
    ran for as long as its warn-after says.

    \b
    gnomon levels
    gnomon levels --weeks 12 --type email.send --csv
    """
    if as_csv and as_json:
        raise typer.BadParameter("give either --csv or --json")

    async def read(client: "DocumentClient") -> "Json":
        job_id = None if job is None else (await client.get_cron_job(job))["cron_job_id"]
        found: Json = await client.get_service_levels(
            weeks=weeks, task_type=task_type, cron_job_id=job_id
        )
        return found

    found = remote.call(remote.api_url(settings_of(ctx), api), read)
    if as_json:
        output.document(found)
    elif as_csv:
        output.echo(csv_of(_OF_CSV, map(_line, found["service_levels"])), nl=False)
    else:
        _table(found["service_levels"])
    if found["truncated"]:
        output.note("there are more: ask for fewer weeks, or for one --type")


def _line(row: "Json") -> tuple[object, ...]:
    start, run = row["start"], row["run"]
    return (
        row["week"], row["task_type"], row["cron_job_id"], row["cron_job"],
        start["kept"], start["missed"], start["share"], run["kept"], run["missed"], run["share"],
    )  # fmt: skip


def _table(rows: "list[Json]") -> None:
    if not rows:
        output.note("no task with a service level was judged: give some --sla or --warn-after")
        return
    output.table(
        _COLUMNS,
        [
            (
                row["week"],
                row["task_type"] or "(others)",
                row["cron_job"] or row["cron_job_id"] or "",
                *_level(row["start"]),
                *_level(row["run"]),
            )
            for row in rows
        ],
    )


def _level(level: "Json") -> tuple[str, str, str]:
    if level["share"] is None:
        return "", "", ""
    judged = level["kept"] + level["missed"]
    return str(judged), str(level["missed"]), f"{100 * level['share']:.2f} %"
