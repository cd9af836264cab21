"""`gnomon submit`: submit one task."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnomon.cli.shared import output, remote, values
from gnomon.cli.shared.groups import OptionGroup, with_groups
from gnomon.cli.shared.options import ApiUrl, AsJson, settings_of
from gnomon.cli.tasks import views
from gnomon.cli.tasks.template import TemplateOptions

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json
    from gnomon.client.client import DocumentClient

FINAL = {"COMPLETED", "DEAD_LETTERED", "CANCELLED", "EXPIRED"}
FIRST_POLL_SECONDS = 0.05
LONGEST_POLL_SECONDS = 1.0

Url = Annotated[str | None, typer.Argument(metavar="URL", help="The webhook to call.")]
Wait = Annotated[
    bool, typer.Option("--wait", help="Wait until the task has finished, and show it.")
]


class SubmitOptions(OptionGroup):
    """Options of one task, beside those of its template."""

    payload: Annotated[str | None, typer.Option(metavar="JSON", help="Payload for the target.")] = (
        None
    )
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
        Any, typer.Option(parser=values.moment, metavar="TIME", help="Run at this time.")
    ] = None
    idempotency_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Submit only once for this key.")
    ] = None

    def body(self) -> "Json":
        """The fields that the API takes."""
        if self.delay is not None and self.at is not None:
            raise typer.BadParameter("give either --delay or --at")
        return values.given(
            payload=values.payload(self.payload, self.payload_file),
            name=self.name,
            delay_seconds=self.delay,
            execute_at=None if self.at is None else values.rfc3339(self.at),
            idempotency_key=self.idempotency_key,
        )


@with_groups
def submit(
    ctx: typer.Context,
    *,
    url: Url = None,
    task: SubmitOptions,
    template: TemplateOptions,
    wait: Wait = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Submit a task, and print its id. With --wait, exit code 1 unless it completes.

    Without a URL it goes to the handler of its type.

    \b
    gnomon submit http://127.0.0.1:9000/hello --payload '{"hello": "world"}'
    gnomon submit http://127.0.0.1:9000/later --delay 90s --tag demo --wait
    gnomon submit --type send_email --payload-file mail.json --at 2030-01-31
    """
    body = task.body() | template.body(url)
    address = remote.api_url(settings_of(ctx), api)
    remote.call(address, lambda client: _submit(client, body, wait=wait, as_json=as_json))


async def _submit(client: "DocumentClient", task: "Json", *, wait: bool, as_json: bool) -> None:
    submitted = await client.submit_task(task)
    task_id = submitted["task_id"]
    for warning in submitted.get("warnings", ()):
        output.note(f"warning: {warning}")
    if not wait:
        if as_json:
            output.document(submitted)
            return
        # The id alone on stdout: ID=$(gnomon submit ...)
        output.echo(task_id)
        # A key that may not read is not told when another's task with its idempotency key is due.
        at = submitted.get("execute_at")
        due = f"due {output.moment(at)}; " if at else ""
        output.note(f"{due}gnomon tasks show {task_id}")
        return
    if not as_json:
        output.note(f"submitted {task_id}, waiting for it to finish")
    await _until_final(client, task_id)
    finished = await views.read(client, task_id)
    if as_json:
        output.document(finished)
    else:
        views.show(finished)
    if finished["status"] != "COMPLETED":
        raise typer.Exit(1)


async def _until_final(client: "DocumentClient", task_id: str) -> None:
    from gnomon.clock import SystemClock

    clock = SystemClock()
    pause = FIRST_POLL_SECONDS
    while (await client.get_task(task_id))["status"] not in FINAL:
        await clock.sleep(pause)
        pause = min(pause * 1.5, LONGEST_POLL_SECONDS)
