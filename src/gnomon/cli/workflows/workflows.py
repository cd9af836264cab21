"""`gnomon workflows`: apply, list, show, start and remove workflows."""

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from gnomon.cli.shared import output, remote, values
from gnomon.cli.shared.options import ApiUrl, AsJson, Yes, settings_of
from gnomon.cli.shared.output import age
from gnomon.cli.shared.tables import Column, Fit
from gnomon.cli.workflows import run_views, runs

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json
    from gnomon.client.client import DocumentClient

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the workflow.")]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME=VALUE", help="The input: NAME=TEXT, or NAME:=JSON."),
]
Input = Annotated[
    str | None,
    typer.Option("--input", metavar="JSON", help="The input as JSON, or @FILE; @- is stdin."),
]
Key = Annotated[str | None, typer.Option("--idempotency-key", metavar="KEY", help="One run a key.")]
_WORKFLOWS = (
    Column("name", Fit.NAME),
    Column("version", Fit.WHOLE),
    Column("since", Fit.WHOLE),
    Column("by", Fit.NAME, rank=1),
)
_NODES = (
    Column("node", Fit.NAME),
    Column("runs", Fit.TEXT),
    Column("after", Fit.TEXT),
    Column("when", Fit.WHOLE, rank=1),
    Column("else", Fit.WHOLE, rank=2),
)

app = typer.Typer(no_args_is_help=True, help="Workflows: tasks that wait for tasks.",
                  rich_markup_mode=None)  # fmt: skip
app.add_typer(runs.app, name="runs")


@app.command()
def apply(
    ctx: typer.Context,
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="A definition in JSON; - is stdin.")
    ],
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Store definitions: a new version of each, unless the newest says the same.

    A file holds a definition, or what `workflows show --json` has printed.

    \b
    gnomon workflows apply order.json
    """
    given = {file: _definition(values.json_file(file)) for file in files}

    async def act(client: "DocumentClient", file: str) -> tuple[str, "Json"]:
        stored: Json = await client.put_workflow(given[file])
        return f"{stored['name']} is at version {stored['version']}", stored

    address = remote.api_url(settings_of(ctx), api)
    remote.for_each(address, files, act, member="workflows", find=remote.as_given, as_json=as_json)


@app.command("list")
def list_(ctx: typer.Context, as_json: AsJson = False, api: ApiUrl = None) -> None:
    """List workflows by name, each with its newest version.

    \b
    gnomon workflows list
    """
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(address, lambda client: client.list_workflows(), _show_all, as_json=as_json)


@app.command()
def show(
    ctx: typer.Context,
    name: Name,
    version: Annotated[int | None, typer.Option(min=1, help="Another than the newest.")] = None,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Show a workflow and its nodes; with --json all of its definition.

    \b
    gnomon workflows show order
    gnomon workflows show order --json > order.json
    """
    found = remote.call(
        remote.api_url(settings_of(ctx), api),
        lambda client: client.get_workflow(name, version=version),
    )
    if as_json:
        output.document(found)
        return
    definition = found["definition"]
    output.fields(
        [
            ("workflow", found["name"]),
            ("version", str(found["version"])),
            ("created", output.moment(found["created_at"])),
            ("deadline", output.span(definition.get("deadline_seconds"))),
            ("fail fast", "yes" if definition.get("fail_fast") else ""),
        ]
    )
    output.echo()
    output.table(_NODES, [_row(each, node, definition) for each, node in _nodes(definition)])


@app.command()
def start(
    ctx: typer.Context,
    name: Name,
    arguments: Arguments = None,
    given: Input = None,
    version: Annotated[int | None, typer.Option(min=1, help="Another than the newest.")] = None,
    idempotency_key: Key = None,
    watch: runs.Watch = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Start a run of a workflow, and print its id.

    With --watch its tree is shown until it has ended; the exit code is 1 unless it succeeds.

    \b
    gnomon workflows start order order_id=o-7 cents:=1999 --watch
    """
    asked = _input(arguments, given)

    async def act(client: "DocumentClient") -> "Json":
        made: Json = await client.start_workflow_run(
            name, input=asked, version=version, idempotency_key=idempotency_key
        )
        return await runs.started(client, made, watch=watch, as_json=as_json)

    run = remote.call(remote.api_url(settings_of(ctx), api), act)
    runs.tell_started(run, as_json=as_json, watched=watch)


@app.command("run")
def run_file(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A definition in JSON; - is stdin.")],
    arguments: Arguments = None,
    given: Input = None,
    idempotency_key: Key = None,
    watch: runs.Watch = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Start a run of a definition that is not stored, and print its id. As `start` otherwise.

    \b
    gnomon workflows run order.json order_id=o-7 --watch
    """
    definition, asked = _definition(values.json_file(file)), _input(arguments, given)

    async def act(client: "DocumentClient") -> "Json":
        made: Json = await client.start_ad_hoc_run(
            definition, input=asked, idempotency_key=idempotency_key
        )
        return await runs.started(client, made, watch=watch, as_json=as_json)

    run = remote.call(remote.api_url(settings_of(ctx), api), act)
    runs.tell_started(run, as_json=as_json, watched=watch)


@app.command("rm")
def remove(
    ctx: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="One workflow or several.")],
    yes: Yes = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Remove workflows, with all their versions. Runs that have started go on.

    \b
    gnomon workflows rm order --yes
    """

    async def act(client: "DocumentClient", name: str) -> tuple[str, "Json"]:
        await client.delete_workflow(name)
        return f"{name} is removed", {"removed": name}

    address = remote.api_url(settings_of(ctx), api)
    if not yes:
        output.confirm(f"Remove {', '.join(names)}?")
    remote.for_each(address, names, act, member="workflows", find=remote.as_given, as_json=as_json)


def _definition(content: msgspec.Raw) -> msgspec.Raw:
    """The definition in a file: all of it, or the member that an answer of the API has it in."""
    try:
        members = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        return content  # the API says what is wrong
    return members["definition"] if {"definition", "version"} <= members.keys() else content


def _input(arguments: list[str] | None, given: str | None) -> Any:
    """The input of a run; UNSET where there is none."""
    named = values.arguments(arguments or [])
    if named is not None and given is not None:
        raise typer.BadParameter("give the input as NAME=VALUE, or with --input")
    if given is not None:
        return values.payload_or_file(given)
    return msgspec.UNSET if named is None else named


def _show_all(answer: "Json") -> None:
    at = run_views.now()
    rows = [
        (each["name"], str(each["version"]), age(each["created_at"], at), each["created_by"] or "")
        for each in answer["workflows"]
    ]
    if rows:
        output.table(_WORKFLOWS, rows)
    else:
        output.note("no workflows; gnomon workflows apply FILE stores one")


def _nodes(definition: "Json") -> list[tuple[str, "Json"]]:
    return list(definition["nodes"].items())


def _row(name: str, node: "Json", definition: "Json") -> tuple[str, ...]:
    after = [*node.get("after", ()), *(a for a, b in definition.get("edges", ()) if b == name)]
    failure = node.get("on_failure", "fail")
    return (
        name,
        str(node.get("callback_url") or node.get("task_type") or name),
        ", ".join(after),
        node.get("when", "all_succeeded").replace("all_succeeded", ""),
        "" if failure == "fail" else failure,
    )
