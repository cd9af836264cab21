"""`gnomon types`: the payload schemas and the defaults of task types."""

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from gnomon.cli.shared import output, remote, values
from gnomon.cli.shared.groups import OptionGroup, with_groups
from gnomon.cli.shared.options import ApiUrl, AsJson, settings_of
from gnomon.cli.shared.output import compact, moment
from gnomon.cli.tasks.template import PriorityName
from gnomon.client.errors import NotFound
from gnomon.model.tasks.task import DeliveryMode, KeepPayload

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json
    from gnomon.client.client import DocumentClient

app = typer.Typer(
    no_args_is_help=True,
    help="Task types: a JSON Schema for their payloads, and defaults of their tasks.",
    rich_markup_mode=None,
)

TypeName = Annotated[str, typer.Argument(metavar="TYPE", help="The task type.")]
SchemaFile = Annotated[
    str | None, typer.Argument(metavar="[FILE]", help="A JSON Schema; - is stdin.")
]
File = Annotated[str, typer.Argument(metavar="FILE", help="A file of JSON; - is stdin.")]


class DefaultOptions(OptionGroup):
    """Defaults of a task type."""

    priority: Annotated[
        PriorityName | None, typer.Option(case_sensitive=False, help="Priority of its tasks.")
    ] = None
    delivery: Annotated[DeliveryMode | None, typer.Option(help="Delivery mode.")] = None
    max_retries: Annotated[
        int | None, typer.Option(min=0, help="Retries after the first execution.")
    ] = None
    timeout: Annotated[
        Any,
        typer.Option(
            parser=values.duration, metavar="DURATION", help="Timeout of one execution: 90s, 5m."
        ),
    ] = None
    expires_after: Annotated[
        Any,
        typer.Option(
            parser=values.duration,
            metavar="DURATION",
            help="A task that has not started so long after it was due never will.",
        ),
    ] = None
    jitter: Annotated[
        Any,
        typer.Option(
            parser=values.duration,
            metavar="DURATION",
            help="Start each up to so much after its time, at random.",
        ),
    ] = None
    tags: Annotated[list[str] | None, typer.Option("--tag", help="Repeatable.")] = None
    queue: Annotated[str | None, typer.Option(help="Queue, for limits and worker pools.")] = None
    preemptible: Annotated[
        bool, typer.Option("--preemptible", help="A CRITICAL task may stop it; it then runs again.")
    ] = False
    keep_payload: Annotated[
        KeepPayload | None,
        typer.Option(help="Keep the payload of a finished task: always, failed only, or never."),
    ] = None
    sla: Annotated[
        Any,
        typer.Option(
            parser=values.duration,
            metavar="DURATION",
            help="Raise an event for those that start so long after they were due.",
        ),
    ] = None
    warn_after: Annotated[
        Any,
        typer.Option(
            parser=values.duration,
            metavar="DURATION",
            help="Raise an event when an execution has run for so long.",
        ),
    ] = None

    log_transitions: Annotated[
        bool,
        typer.Option("--log-transitions", help="Log every change of state of its tasks."),
    ] = False

    def body(self) -> "Json":
        """The fields that the API takes; empty where no option was given."""
        return values.given(
            priority=self.priority,
            delivery=self.delivery,
            retry_policy=None if self.max_retries is None else {"max_retries": self.max_retries},
            timeout_seconds=self.timeout,
            expires_after_seconds=self.expires_after,
            jitter_seconds=self.jitter,
            tags=self.tags or None,
            queue=self.queue,
            preemptible=self.preemptible or None,
            keep_payload=self.keep_payload,
            sla_seconds=self.sla,
            warn_after_seconds=self.warn_after,
            log_transitions=self.log_transitions or None,
        )


@app.command("set")
@with_groups
def set_(
    ctx: typer.Context,
    name: TypeName,
    file: SchemaFile = None,
    *,
    defaults: DefaultOptions,
    no_schema: Annotated[
        bool, typer.Option("--no-schema", help="Remove the schema: any payload will do.")
    ] = False,
    no_defaults: Annotated[
        bool, typer.Option("--no-defaults", help="Remove the defaults.")
    ] = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Give a task type a payload schema, or defaults, for all tasks from now on.

    The options replace all defaults together. What is not given stays: the schema without a FILE,
    the defaults without an option.

    \b
    gnomon types set email.send email.schema.json
    gnomon types set email.send --timeout 60s --max-retries 5 --queue mails
    """
    wanted = defaults.body()
    if file is not None and no_schema:
        raise typer.BadParameter("give a FILE or --no-schema")
    if wanted and no_defaults:
        raise typer.BadParameter("give defaults or --no-defaults")
    if file is None and not (wanted or no_schema or no_defaults):
        raise typer.BadParameter("give a FILE with a schema, or defaults such as --timeout 60s")
    schema = True if no_schema else None if file is None else values.json_file(file)

    async def put(client: "DocumentClient") -> "Json":
        known = await _known(client, name)
        found: Json = await client.put_task_type(
            name,
            known["schema"] if schema is None else schema,
            {} if no_defaults else wanted or known["defaults"],
        )
        return found

    remote.tell(remote.api_url(settings_of(ctx), api), put, _line, as_json=as_json)


async def _known(client: "DocumentClient", name: str) -> "Json":
    try:
        found: Json = await client.get_task_type(name)
    except NotFound:
        return {"schema": True, "defaults": {}}
    return found


@app.command("list")
def list_(ctx: typer.Context, as_json: AsJson = False, api: ApiUrl = None) -> None:
    """List the task types that have a payload schema or defaults.

    \b
    gnomon types list
    """
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(address, lambda client: client.list_task_types(), _table, as_json=as_json)


@app.command()
def show(ctx: typer.Context, name: TypeName, as_json: AsJson = False, api: ApiUrl = None) -> None:
    """Show the payload schema and the defaults of a task type; with --json also when it was
    changed.

    \b
    gnomon types show email.send
    """
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(address, lambda client: client.get_task_type(name), _shown, as_json=as_json)


@app.command()
def rm(ctx: typer.Context, name: TypeName, as_json: AsJson = False, api: ApiUrl = None) -> None:
    """Remove the payload schema and the defaults of a task type.

    \b
    gnomon types rm email.send
    """
    address = remote.api_url(settings_of(ctx), api)
    remote.call(address, lambda client: client.delete_task_type(name))
    told = f"{name} has neither a payload schema nor defaults any more"
    output.done(told, {"removed": name}, as_json=as_json)


@app.command()
def check(
    ctx: typer.Context, name: TypeName, file: File, as_json: AsJson = False, api: ApiUrl = None
) -> None:
    """Check a payload against the schema of a task type, and submit nothing.

    Ends with 1 where the payload is not as the schema says.

    \b
    gnomon types check email.send payload.json
    """
    payload = values.json_file(file)

    address = remote.api_url(settings_of(ctx), api)
    known = remote.call(address, lambda client: client.get_task_type(name))
    # Here and not above: few commands need it.
    from gnomon.payload_schemas.schema import PayloadSchema

    schema = PayloadSchema(msgspec.json.encode(known["schema"]))
    found = schema.mistakes(bytes(payload))
    if as_json:
        errors = [{"pointer": each.pointer, "detail": each.detail} for each in found]
        output.document({"valid": not found, "errors": errors})
    elif not found:
        output.echo("the payload is as the schema says")
    else:
        for each in found:
            output.trouble(f"{each.pointer or '/'}: {each.detail}")
    if found:
        raise typer.Exit(1)


def _line(found: "Json") -> None:
    parts = []
    if found["schema"] is not True:
        parts.append("a payload schema")
    if found["defaults"]:
        parts.append("defaults")
    output.echo(f"{found['name']} has {' and '.join(parts) or 'neither a schema nor defaults'}")


def _table(answer: "Json") -> None:
    if not answer["task_types"]:
        output.note("no task type has a payload schema or defaults")
        return
    output.table(
        ["task type", "schema bytes", "defaults", "updated"],
        [
            (
                each["name"],
                str(each["schema_bytes"]),
                compact(each["defaults"]) if each["defaults"] else "",
                moment(each["updated_at"]),
            )
            for each in answer["task_types"]
        ],
    )


def _shown(found: "Json") -> None:
    output.document({"schema": found["schema"], "defaults": found["defaults"]})
