"""Options of the commands about recurring jobs, and their shell completion."""

from typing import Annotated, Any

import typer

from gnomon import loop
from gnomon.cli.shared import remote, values
from gnomon.cli.shared.options import settings_of
from gnomon.client.errors import ClientError
from gnomon.settings import SettingsError

# A shell that completes must not be made to wait.
COMPLETION_SECONDS = 1.0
MOST_COMPLETED = 50


def complete_job(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of jobs with this prefix; none where the API does not answer."""
    try:
        api = remote.api_url(settings_of(ctx), ctx.params.get("api"))
        return loop.run(_names(api, incomplete))
    except (ClientError, SettingsError, typer.BadParameter):
        return []


async def _names(api: remote.ApiAddress, incomplete: str) -> list[str]:
    filters = {"name": incomplete} if incomplete else {}
    found: list[str] = []
    client_type = remote.document_client()
    async with client_type(api.url, key=api.key, timeout=COMPLETION_SECONDS, retries=0) as client:
        async for job in client.list_cron_jobs(**filters):
            if job["name"].startswith(incomplete):
                found.append(job["name"])
            if len(found) == MOST_COMPLETED:
                break
    return found


def complete_timezone(incomplete: str) -> list[str]:
    """IANA names with this prefix, or with a city that has it."""
    from zoneinfo import available_timezones

    wanted = incomplete.lower()
    names = sorted(available_timezones())
    return [name for name in names if name.lower().startswith(wanted)] or [
        name for name in names if name.rpartition("/")[2].lower().startswith(wanted)
    ]


def duration(*names: str, help: str, metavar: str = "DURATION") -> Any:  # noqa: A002
    return typer.Option(*names, parser=values.duration, metavar=metavar, help=help)


def moment(*names: str, help: str) -> Any:  # noqa: A002
    return typer.Option(*names, parser=values.moment, metavar="TIME", help=help)


_ref = typer.Argument(metavar="JOB", help="The job's name, or its id.", autocompletion=complete_job)
Ref = Annotated[str, _ref]
Refs = Annotated[list[str], _ref]
OptionalRef = Annotated[str | None, _ref]

Timezone = Annotated[
    str | None,
    typer.Option(
        metavar="ZONE",
        help="IANA time zone, such as Europe/Berlin.",
        autocompletion=complete_timezone,
    ),
]
Count = Annotated[int, typer.Option("--count", min=1, max=1000, help="Show this many fires.")]
After = Annotated[Any, moment("--after", help="Show fires after this time, instead of now.")]

Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="What to call: http, grpc or queue.")
]
Payload = Annotated[
    str | None,
    typer.Option(metavar="JSON|@FILE", help="Payload of each run; may hold {{fire_time}} etc."),
]
