"""`gnomon submit`: submit one task."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnomon.cli.shared import output, remote, values
from gnomon.cli.shared.groups import OptionGroup, with_groups
from gnomon.cli.shared.options import ApiUrl, AsJson, settings_of
from gnomon.cli.tasks import views, watching
from gnomon.cli.tasks.template import TemplateOptions

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json
    from gnomon.client.client import DocumentClient

What = Annotated[
    str | None,
    typer.Argument(metavar="TYPE|URL", help="The handler's task type, or the URL to call."),
]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME=VALUE", help="The payload: NAME=TEXT, or NAME:=JSON."),
]
Wait = Annotated[
    bool, typer.Option("--wait", help="Wait until the task has ended, and print its result.")
]


class SubmitOptions(OptionGroup):
    """Options of one task, beside those of its template."""

    payload: Annotated[
        str | None, typer.Option(metavar="JSON", help="Payload, instead of NAME=VALUE.")
    ] = None
    payload_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Payload from a file, or - for stdin.")
    ] = None
    name: Annotated[str | None, typer.Option(help="A name for people.")] = None
    delay: Annotated[
        Any,
        typer.Option(
            parser=values.duration, metavar="DURATION", help="Run after 90, 90s, 5m, 2h or 1d."
        ),
    ] = None
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Run at 'tomorrow 09:00', 'monday 8:30', or a date."),
    ] = None
    timezone: Annotated[
        str | None,
        typer.Option(metavar="ZONE", help="IANA time zone of --at; else this machine's."),
    ] = None
    jitter: Annotated[
        Any,
        typer.Option(
            parser=values.duration, metavar="DURATION", help="Start up to so much later, at random."
        ),
    ] = None
    idempotency_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Submit only once for this key.")
    ] = None
    correlation_id: Annotated[
        str | None, typer.Option(metavar="ID", help="What the task belongs to; else its own id.")
    ] = None
    batch: Annotated[
        str | None, typer.Option(metavar="ID", help="An open batch, to put it into.")
    ] = None
    on_success: Annotated[
        str | None,
        typer.Option(metavar="TYPE|URL", help="Runs after its success, with its result."),
    ] = None
    on_failure: Annotated[
        str | None, typer.Option(metavar="TYPE|URL", help="Runs when its retries are spent.")
    ] = None

    def body(self, arguments: list[str]) -> "Json":
        """The fields that the API takes."""
        if self.delay is not None and self.at is not None:
            raise typer.BadParameter("give either --delay or --at")
        if self.timezone is not None and self.at is None:
            raise typer.BadParameter("--timezone is the time zone of --at")
        at = None if self.at is None else values.moment_in(self.at, self.timezone)
        payload = values.payload(self.payload, self.payload_file)
        named = values.arguments(arguments)
        if payload is not None and named is not None:
            raise typer.BadParameter("give the payload as NAME=VALUE, or with --payload")
        return values.given(
            payload=payload if named is None else named,
            name=self.name,
            delay_seconds=self.delay,
            jitter_seconds=self.jitter,
            execute_at=None if at is None else values.rfc3339(at),
            idempotency_key=self.idempotency_key,
            correlation_id=self.correlation_id,
            batch_id=self.batch,
            on_success=_callback(self.on_success, {"result": "{{nodes.task.result}}"}),
            on_failure=_callback(self.on_failure, {}),
        )


def _callback(called: str | None, payload: "Json") -> "Json | None":
    """A task that follows, and is told of the run."""
    found = values.callback(called)
    return None if found is None else found | {"payload": {"run_id": "{{run.id}}", **payload}}


@with_groups
def submit(
    ctx: typer.Context,
    *,
    what: What = None,
    arguments: Arguments = None,
    task: SubmitOptions,
    template: TemplateOptions,
    wait: Wait = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Submit a task for a handler, a webhook, gRPC or a broker, and print its id.

    The payload is an object of NAME=TEXT and NAME:=JSON. --wait prints the handler's result
    instead, or the task of a URL; the exit code is 1 unless the task completes.

    \b
    gnomon submit send_email user_id=u_1 template=welcome copies:=3 --wait
    gnomon submit send_email user_id=u_1 --at 'tomorrow 09:00' --timezone UTC
    gnomon submit http://127.0.0.1:9000/hello --payload '{"hello": "world"}'
    gnomon submit grpc://127.0.0.1:50051/shop.Orders/Ship order_id=o_1
    gnomon submit queue://orders/created order_id=o_1 --delay 5m
    """
    url, task_type = (what, None) if what is not None and "://" in what else (None, what)
    if task_type is not None and "=" in task_type:
        raise typer.BadParameter(f"give the task type or the URL first, before {task_type!r}")
    if task_type is not None and template.task_type not in (None, task_type):
        raise typer.BadParameter("the handler's task type is given twice: leave out --type")
    template.task_type = template.task_type or task_type
    body = task.body(arguments or []) | template.body(url)
    address = remote.api_url(settings_of(ctx), api)

    async def run(client: "DocumentClient") -> None:
        submitted = await client.submit_task(body)
        for warning in submitted.get("warnings") or ():
            output.note(f"warning: {warning}")
        if wait:
            await _wait(client, submitted["task_id"], as_json=as_json)
        elif as_json:
            output.document(submitted)
        else:
            _show_submitted(submitted, task.timezone)

    remote.call(address, run)


async def _wait(client: "DocumentClient", task_id: str, *, as_json: bool) -> None:
    if not as_json:
        output.note(f"submitted {task_id}")
    ended = await watching.until_over(client, task_id, quiet=as_json)
    if as_json:
        output.document(ended)
    elif ended["status"] == "COMPLETED" and ended["target"]["type"] == "python":
        output.document(ended.get("result"))
    else:
        views.show(ended)
    if ended["status"] != "COMPLETED":
        raise typer.Exit(1)


def _show_submitted(submitted: "Json", zone: str | None) -> None:
    # The id alone on stdout: ID=$(gnomon submit ...)
    output.echo(submitted["task_id"])
    # A key that may not read is not told when another's task with its idempotency key is due.
    at = submitted.get("execute_at")
    due = f"due {_both(at, zone)}; " if at else ""
    output.note(f"{due}gnomon tasks show {submitted['task_id']}")


def _both(at: str, zone: str | None) -> str:
    """A moment as clocks show it here, or in the zone that was given, and in UTC."""
    from zoneinfo import ZoneInfo

    moment = datetime.fromisoformat(at)
    local = moment.astimezone(None if zone is None else ZoneInfo(zone))
    if not local.utcoffset():
        return f"{local:%a} {output.moment(at)}"
    return f"{local:%a %Y-%m-%d %H:%M:%S %Z}, {output.moment(at)}"
