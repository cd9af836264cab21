"""`gnomon types`: the schemas that payloads of a task type must satisfy."""

from typing import Annotated, Any

import msgspec
import typer

from gnomon.cli.shared import output, remote, values
from gnomon.cli.shared.options import ApiUrl, AsJson, settings_of
from gnomon.cli.shared.output import moment

app = typer.Typer(
    no_args_is_help=True,
    help="Task types with a JSON Schema for their payloads.",
    rich_markup_mode=None,
)

TypeName = Annotated[
    str, typer.Argument(metavar="TYPE", help="The task type.", parser=values.path_part)
]
File = Annotated[str, typer.Argument(metavar="FILE", help="A file of JSON; - is stdin.")]


@app.command("set")
def set_(
    ctx: typer.Context, name: TypeName, file: File, as_json: AsJson = False, api: ApiUrl = None
) -> None:
    """Give a task type this payload schema, for all tasks from now on.

    \b
    gnomon types set email.send email.schema.json
    """
    schema = values.json_file(file)
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(address, lambda client: client.put_task_type(name, schema), _line, as_json=as_json)


@app.command("list")
def list_(ctx: typer.Context, as_json: AsJson = False, api: ApiUrl = None) -> None:
    """List the task types that have a payload schema.

    \b
    gnomon types list
    """
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(address, lambda client: client.list_task_types(), _table, as_json=as_json)


@app.command()
def show(ctx: typer.Context, name: TypeName, as_json: AsJson = False, api: ApiUrl = None) -> None:
    """Show the payload schema of a task type; with --json also when it was changed.

    \b
    gnomon types show email.send
    """
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(address, lambda client: client.get_task_type(name), _schema, as_json=as_json)


@app.command()
def rm(ctx: typer.Context, name: TypeName, api: ApiUrl = None) -> None:
    """Remove the payload schema of a task type: its payloads are no longer checked.

    \b
    gnomon types rm email.send
    """
    address = remote.api_url(settings_of(ctx), api)
    remote.call(address, lambda client: client.delete_task_type(name))
    output.echo(f"{name} has no payload schema any more")


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


def _line(found: dict[str, Any]) -> None:
    output.echo(f"{found['name']} has a payload schema; new tasks are checked against it")


def _table(answer: dict[str, Any]) -> None:
    if not answer["task_types"]:
        output.note("no task type has a payload schema")
        return
    output.table(
        ["task type", "bytes", "updated"],
        [
            (each["name"], str(each["schema_bytes"]), moment(each["updated_at"]))
            for each in answer["task_types"]
        ],
    )


def _schema(found: dict[str, Any]) -> None:
    output.document(found["schema"])
