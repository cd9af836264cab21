"""`gnomon submit`: hand in one task."""

import itertools
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnomon.cli.shared import output, remote, values
from gnomon.cli.shared.options import ApiUrl, AsJson, settings_of
from gnomon.cli.tasks import definition, views
from gnomon.cli.tasks.tasks import Moment, PriorityName
from gnomon.model.task import DeliveryMode, KeepPayload

if TYPE_CHECKING:
    from gnomon.client.client import Client, Json

DEFAULT_TYPE = "webhook"
FINAL = {"COMPLETED", "DEAD_LETTERED", "CANCELLED", "EXPIRED"}
FIRST_POLL_SECONDS = 0.05
LONGEST_POLL_SECONDS = 1.0

Url = Annotated[str | None, typer.Argument(metavar="URL", help="The webhook to call.")]
Function = Annotated[
    str | None,
    typer.Option("--python", metavar="NAME", help="Instead, a function that the nodes know."),
]
Payload = Annotated[str | None, typer.Option(metavar="JSON", help="What the target gets.")]
PayloadFile = Annotated[
    str | None, typer.Option(metavar="FILE", help="The same from a file, or - for stdin.")
]
TaskType = Annotated[
    str | None,
    typer.Option(
        "--type", help="What kind of task it is: webhook, or the function, where not given."
    ),
]
Name = Annotated[str | None, typer.Option(help="For people.")]
Method = Annotated[str | None, typer.Option(help="Of the webhook: POST where not given.")]
Headers = Annotated[
    list[Any] | None,
    typer.Option(
        "--header",
        parser=values.headers,
        metavar="'NAME: VALUE'|@FILE",
        help="May be repeated; secret ones are better in a file, a line each (@- is stdin).",
    ),
]
Duration = Annotated[
    Any, typer.Option(parser=values.duration, metavar="DURATION", help="90, 90s, 5m, 2h, 1d.")
]
Delivery = Annotated[
    DeliveryMode | None, typer.Option(help="What is promised: at_least_once where not given.")
]
Retries = Annotated[int | None, typer.Option(min=0, help="After the first try.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="May be repeated.")]
Key = Annotated[str | None, typer.Option(metavar="KEY", help="Submit once, however often sent.")]
Queue = Annotated[str | None, typer.Option(help="Where it belongs, for limits and pools.")]
Preemptible = Annotated[
    bool, typer.Option("--preemptible", help="May give way to a CRITICAL task, and run again.")
]
Keep = Annotated[
    KeepPayload | None,
    typer.Option(help="Keep the payload of an ended task: always, or only a failed one, or never."),
]
Wait = Annotated[bool, typer.Option("--wait", help="Until it has finished, and show it.")]


def submit(
    ctx: typer.Context,
    url: Url = None,
    function: Function = None,
    payload: Payload = None,
    payload_file: PayloadFile = None,
    task_type: TaskType = None,
    name: Name = None,
    method: Method = None,
    headers: Headers = None,
    delay: Duration = None,
    at: Moment = None,
    priority: Annotated[PriorityName | None, typer.Option(case_sensitive=False)] = None,
    delivery: Delivery = None,
    max_retries: Retries = None,
    timeout: Duration = None,
    tags: Tags = None,
    queue: Queue = None,
    preemptible: Preemptible = False,
    keep_payload: Keep = None,
    idempotency_key: Key = None,
    wait: Wait = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Submit a task, and print its id. With --wait, exit code 1 unless it completes.

    \b
    gnomon submit http://127.0.0.1:9000/hello --payload '{"hello": "world"}'
    gnomon submit http://127.0.0.1:9000/later --delay 90s --tag demo --wait
    gnomon submit --python send_email --payload-file mail.json --at '2030-01-31 09:00'
    """
    if (url is None) == (function is None):
        raise typer.BadParameter("give the URL of a webhook, or --python NAME")
    task = values.given(
        target=definition.target(url, function, method, flattened(headers)),
        task_type=task_type or function or DEFAULT_TYPE,
        payload=values.payload(payload, payload_file),
        name=name,
        idempotency_key=idempotency_key,
    )
    task |= _when(delay, at) | definition.placed(queue, keep_payload, preemptible=preemptible)
    task |= definition.running(priority, delivery, max_retries, timeout, tags)
    address = remote.api_url(settings_of(ctx), api)
    remote.call(address, lambda client: _submit(client, task, wait=wait, as_json=as_json))


def flattened(headers: "list[list[tuple[str, str]]] | None") -> dict[str, str]:
    """Those of every --header."""
    return dict(itertools.chain.from_iterable(headers or []))


def _when(delay: float | None, at: datetime | None) -> "Json":
    if delay is not None and at is not None:
        raise typer.BadParameter("give either --delay or --at")
    return values.given(delay_seconds=delay, execute_at=None if at is None else values.rfc3339(at))


async def _submit(client: "Client", task: "Json", *, wait: bool, as_json: bool) -> None:
    submitted = await client.submit(task)
    task_id = submitted["task_id"]
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


async def _until_final(client: "Client", task_id: str) -> None:
    from gnomon.clock import SystemClock

    clock = SystemClock()
    pause = FIRST_POLL_SECONDS
    while (await client.get(task_id))["status"] not in FINAL:
        await clock.sleep(pause)
        pause = min(pause * 1.5, LONGEST_POLL_SECONDS)
