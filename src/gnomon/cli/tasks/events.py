"""`gnomon events`: dead letters, missed SLAs of cron jobs, breakers; and who took note of them."""

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnomon import loop
from gnomon.cli.shared import output, remote
from gnomon.cli.shared.groups import OptionGroup, with_groups
from gnomon.cli.shared.installation import Installation, of
from gnomon.cli.shared.options import ApiUrl, AsJson, Everything, Limit, settings_of
from gnomon.cli.shared.output import CommandFailed, compact, second
from gnomon.cli.shared.short_ids import id_among
from gnomon.cli.shared.tables import Column, Fit
from gnomon.cli.shared.values import given
from gnomon.cli.tasks import views

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json
    from gnomon.client.client import DocumentClient

_COLUMNS = (
    Column("event", Fit.ID, rank=3),
    Column("at", Fit.WHOLE),
    Column("severity", Fit.WHOLE, rank=4),
    Column("kind", Fit.WHOLE),
    Column("job", rank=1),
    Column("task", Fit.ID, rank=2),
    Column("acknowledged", rank=5),
    Column("detail"),
)
_RECENT = 1_000  # events among which the beginning of an id is looked for


class EventOptions(OptionGroup):
    """Which events."""

    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help="Only these, like cron.sla_missed.")
    ] = None
    severity: Annotated[
        str | None, typer.Option(metavar="SEVERITY", help="Only these: info, warning or error.")
    ] = None
    task_type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Only about this task type.")
    ] = None
    is_open: Annotated[
        bool, typer.Option("--open", help="Only those that nobody has acknowledged.")
    ] = False

    def filters(self) -> dict[str, Any]:
        """The parameters of the list and of the stream."""
        return given(kind=self.kind, severity=self.severity, task_type=self.task_type)


@with_groups
def events(
    ctx: typer.Context,
    wanted: EventOptions,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Wait for new ones, and show them as they happen."),
    ] = False,
    after: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", min=0, help="With --follow: first those after this one."),
    ] = None,
    transitions: Annotated[
        bool,
        typer.Option(
            "--transitions", help="With --follow: also changes of tasks whose type logs them."
        ),
    ] = False,
    installation: Installation = False,
    limit: Limit = 50,
    everything: Everything = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """List events, newest first: dead letters, cron runs that missed their SLA, breakers.

    \b
    gnomon events --open
    gnomon events --follow --severity error
    gnomon events --follow --transitions --type mail
    gnomon events --installation --open
    """
    if follow and (wanted.is_open or everything):
        raise typer.BadParameter("--follow shows all that happens: not with --open or --all")
    if after is not None and not follow:
        raise typer.BadParameter("--after needs --follow")
    if transitions and (not follow or installation):
        raise typer.BadParameter("--transitions needs --follow, and not --installation")
    if installation and wanted.task_type is not None:
        raise typer.BadParameter("no event of the installation is about a task type")
    if follow:
        run = partial(_follow, after, transitions, installation, wanted, as_json)
    else:
        run = partial(_list, None if everything else limit, installation, wanted, as_json)
    remote.call(remote.api_url(settings_of(ctx), api), run)


async def _list(
    limit: int | None,
    installation: bool,
    wanted: EventOptions,
    as_json: bool,
    client: "DocumentClient",
) -> None:
    acknowledged = {"acknowledged": False} if wanted.is_open else {}
    listed = of(client, "list_events", installation)
    found = listed(**wanted.filters(), **acknowledged, limit=limit)
    await (output.stream("events", found) if as_json else views.in_pieces(found, _rows))


async def _follow(
    after: int | None,
    transitions: bool,
    installation: bool,
    wanted: EventOptions,
    as_json: bool,
    client: "DocumentClient",
) -> None:
    """Shows events as they happen, and transitions if they are asked for, until it is
    interrupted."""
    found = client.follow_events(**wanted.filters(), after=after, installation=installation)
    events = _show(found, _line, as_json)
    if not transitions:
        await events
        return
    since = "0" if after == 0 else None
    changes = client.follow_transitions(task_type=wanted.task_type, after=since)
    await loop.unless(_show(changes, _transition_line, as_json), events)


async def _show(found: AsyncIterator["Json"], line: Callable[["Json"], str], as_json: bool) -> None:
    async for event in found:
        if as_json:
            output.line(compact(event))
        else:
            output.paragraph(line(event))


def _transition_line(event: "Json") -> str:
    """A transition in a line, in the columns of events."""
    told = event["data"]
    change = f"{told['from_state'] or '(new)'} -> {told['to_state'] or '(deleted)'}"
    about = given(attempt=told["attempt"] or None, node=told["node"])
    return (
        f"{second(event['time'])}  {'info':<7}  task.transition  {change}  "
        f"task_type={told['task_type']} task_id={told['task_id']} {_detail(about)}"
    ).rstrip()


def _line(event: "Json") -> str:
    """An event in a line: when, how much it matters, what, and about what."""
    kind = event["type"].removeprefix("gnomon.")
    return f"{second(event['time'])}  {event['severity']:<7}  {kind}  {_detail(event['data'])}"


def acknowledge(
    ctx: typer.Context,
    event_ids: Annotated[
        list[str], typer.Argument(metavar="EVENT...", help="Their ids, or how those begin.")
    ],
    note: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What to say about them.")
    ] = None,
    installation: Installation = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Acknowledge events: note that you have taken note of them. Who is first is kept.

    \b
    gnomon acknowledge 019a5f3e --note "the bank was down until nine"
    """

    async def run(client: "DocumentClient") -> None:
        listed = of(client, "list_events", installation)(acknowledged=False, limit=_RECENT)
        recent = [event async for event in listed]
        found = [await id_among(each, "event", recent, "event_id") for each in event_ids]
        answer = await of(client, "acknowledge_events", installation)(found, note=note)
        acknowledged = answer["event_ids"]
        gone = set(found) - set(acknowledged)
        if gone:
            raise CommandFailed(f"there is no event {', '.join(sorted(gone))}")
        number = len(acknowledged)
        text = f"acknowledged {number} event{'' if number == 1 else 's'}"
        output.done(text, {"event_ids": acknowledged}, as_json=as_json)

    remote.call(remote.api_url(settings_of(ctx), api), run)


def _rows(events: Sequence["Json"]) -> None:
    output.table(
        _COLUMNS,
        [
            (
                event["event_id"],
                second(event["at"]),
                event["severity"],
                event["kind"],
                event["detail"].get("cron_job") or event["cron_job_id"] or "",
                event["task_id"] or "",
                _acknowledged(event),
                _detail(event["detail"]),
            )
            for event in events
        ],
    )


def _acknowledged(event: "Json") -> str:
    if event["acknowledged_at"] is None:
        return ""
    by = event["acknowledged_by"] or "yes"
    return f"{by}: {event['note']}" if event["note"] else by


def _detail(detail: "Json") -> str:
    """Fields that have no column of their own, without those that are null or zero."""
    shown = ((name, value) for name, value in detail.items() if name != "cron_job" and value)
    return " ".join(
        f"{name}={value if isinstance(value, str) else compact(value)}" for name, value in shown
    )
