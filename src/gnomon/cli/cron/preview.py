"""`gnomon cron preview` and `explain`: when a schedule fires. An expression needs no server."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from gnomon.cli.cron import job_views, options
from gnomon.cli.cron.definition import ScheduleOptions
from gnomon.cli.shared import output, remote
from gnomon.cli.shared.groups import with_groups
from gnomon.cli.shared.options import ApiUrl, AsJson, settings_of
from gnomon.cli.shared.values import given, rfc3339
from gnomon.cron.schedule import (
    Dst,
    Fire,
    Schedule,
    cron_schedule,
    interval_schedule,
)
from gnomon.cron.steps import check_steps
from gnomon.cron.warnings import warnings_of

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json
    from gnomon.client.client import DocumentClient

# What a job says about its times, as the API's preview takes it.
SCHEDULE_FIELDS = (
    "cron_expression",
    "interval_seconds",
    "interval_from",
    "timezone",
    "dst",
    "start_date",
    "end_date",
)


@with_groups
def preview(
    ctx: typer.Context,
    schedule: ScheduleOptions,
    ref: options.OptionalRef = None,
    after: options.After = None,
    count: options.Count = 10,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Show when a job fires next, or when a schedule would. Only a job needs the server.

    \b
    gnomon cron preview report
    gnomon cron preview --cron '30 2 * * *' --timezone Europe/Berlin
    """
    if ref is not None:
        if schedule != ScheduleOptions():
            raise typer.BadParameter("give a job, or a schedule; the job brings its own")
        answer = remote.call(
            remote.api_url(settings_of(ctx), api),
            lambda client: _of_job(client, ref, after, count),
        )
    else:
        answer = _answer(_schedule(schedule), after, count, schedule.cron)
    _show(answer, schedule.cron or "", as_json=as_json)


def _schedule(asked: ScheduleOptions) -> Schedule:
    if asked.cron is None and asked.every is None:
        raise typer.BadParameter("give a job, or a schedule: --cron '0 9 * * *' or --every 15m")
    asked.check()
    zone = asked.timezone or "UTC"
    if asked.cron is None:
        return interval_schedule(asked.every, zone, asked.phase, starts=asked.start, ends=asked.end)
    dst = Dst(**given(gap=asked.gap, fold=asked.fold))
    schedule = cron_schedule(asked.cron, zone, dst, starts=asked.start, ends=asked.end)
    check_steps(asked.cron)
    return schedule


def explain(
    expression: Annotated[str, typer.Argument(metavar="EXPR", help="A cron expression, quoted.")],
    timezone: options.Timezone = None,
    after: options.After = None,
    count: options.Count = 5,
    as_json: AsJson = False,
) -> None:
    """Explain a cron expression, and show when it fires next. Needs no server.

    \b
    gnomon cron explain '0 9 15W * *'
    gnomon cron explain '30 2 * * *' --timezone America/New_York
    """
    schedule = cron_schedule(expression, timezone or "UTC")
    check_steps(expression)
    _show(_answer(schedule, after, count, expression), expression, as_json=as_json)


async def _of_job(client: "DocumentClient", ref: str, after: datetime | None, count: int) -> "Json":
    job = await client.get_cron_job(ref)
    fields = given(**{name: job[name] for name in SCHEDULE_FIELDS})
    moment = None if after is None else rfc3339(after)
    asked = given(cron_job_id=job["cron_job_id"], count=count, after=moment)
    if job["status"] != "active":
        output.note(f"{job['name']} is {job['status']}: as it stands, none of these will fire")
    preview: Json = await client.preview_cron_job(fields | asked)
    return preview


def _answer(
    schedule: Schedule, after: datetime | None, count: int, expression: str | None
) -> "Json":
    """The answer that the API would give."""
    from gnomon.clock import SystemClock

    begin = after or SystemClock().now()
    found = schedule.preview(begin, count)
    return {
        "fires": [_fire(fire) for fire in found],
        "description": schedule.describe(),
        "warnings": warnings_of(expression, found, begin),
    }


def _fire(fire: Fire) -> "Json":
    return {"fire_at": rfc3339(fire.at), "local": fire.local.isoformat(), "note": fire.note}


def _show(answer: "Json", expression: str, *, as_json: bool) -> None:
    if as_json:
        output.document(answer)
        return
    job_views.fires(answer)
    if _hashed(expression):
        output.note("H is drawn from the id of the job: each job has its own times")


def _hashed(expression: str) -> bool:
    """Whether it has an H of its own, not that of THU."""
    parts = expression.upper().replace(",", " ").split()
    return any(part == "H" or part.startswith(("H/", "H(")) for part in parts)
