"""`gnomon bulk`: operations on all tasks that match a filter; `--all` elsewhere begins one."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnomon.cli.shared import output, remote
from gnomon.cli.shared.options import ApiUrl, AsJson, Everything, Limit, settings_of
from gnomon.cli.shared.waiting import goes_on
from gnomon.model.tasks.lifecycle import Status

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json
    from gnomon.client.client import DocumentClient

app = typer.Typer(
    no_args_is_help=True,
    help="Operations on many tasks: list, show, watch and stop them.",
    rich_markup_mode=None,
)

OperationId = Annotated[str, typer.Argument(metavar="ID", help="The operation's id.")]
SomeTaskIds = Annotated[list[str] | None, typer.Argument(metavar="ID", help="One task or several.")]
StatusFilter = Annotated[
    Status | None,
    typer.Option(
        case_sensitive=False, metavar="STATUS", help="Only in this status, such as failed."
    ),
]

AllMatching = Annotated[bool, typer.Option("--all", help="All, or all that match the filters.")]
ErrorFilter = Annotated[
    str | None, typer.Option("--error", metavar="TEXT", help="Only with this in the last error.")
]

NoWait = Annotated[
    bool, typer.Option("--no-wait", help="With --all: begin it, and do not wait for its end.")
]

_LOOK_SECONDS = 0.5
_BAR = 30
_DONE = {
    "retry": "retried",
    "cancel": "cancelled",
    "reschedule": "rescheduled",
    "delete": "deleted",
    "archive": "archived",
    "discard": "discarded",
}


@app.command("list")
def list_(
    ctx: typer.Context,
    limit: Limit = 50,
    everything: Everything = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """List bulk operations, newest first.

    \b
    gnomon bulk list
    """

    async def run(client: "DocumentClient") -> None:
        found = client.list_bulk_operations(limit=None if everything else limit)
        if as_json:
            await output.stream("bulk_operations", found)
            return
        rows = [
            (each["operation_id"], each["action"], each["status"], _progress(each))
            async for each in found
        ]
        output.table(("ID", "ACTION", "STATUS", "DONE"), rows)

    remote.call(remote.api_url(settings_of(ctx), api), run)


@app.command()
def show(
    ctx: typer.Context,
    operation_id: OperationId,
    watch: Annotated[bool, typer.Option("--watch", help="Show it until it has ended.")] = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Show a bulk operation: how far it is, and what it has refused.

    \b
    gnomon bulk show ID --watch
    """

    async def read(client: "DocumentClient") -> "Json":
        found: Json = await client.get_bulk_operation(operation_id)
        return await _until_ended(client, found, quiet=as_json) if watch else found

    remote.tell(remote.api_url(settings_of(ctx), api), read, _show, as_json=as_json)


@app.command()
def stop(
    ctx: typer.Context, operation_id: OperationId, as_json: AsJson = False, api: ApiUrl = None
) -> None:
    """Stop a bulk operation. What it has changed stays changed.

    \b
    gnomon bulk stop ID
    """

    async def act(client: "DocumentClient") -> "Json":
        found: Json = await client.stop_bulk_operation(operation_id)
        return found

    def tell(found: "Json") -> None:
        output.echo(f"{operation_id} is {found['status']}")

    remote.tell(remote.api_url(settings_of(ctx), api), act, tell, as_json=as_json)


def check_chosen(
    task_ids: list[str] | None, filters: dict[str, str], *, everything: bool, what: str = "tasks"
) -> None:
    """Ids, or --all, which filters choose among. Raises BadParameter."""
    if everything == bool(task_ids):
        raise typer.BadParameter(f"give the ids of {what}, or --all")
    if filters and not everything:
        raise typer.BadParameter("filters such as --type and --tag choose among --all")


def given_filters(**filters: str | None) -> dict[str, str]:
    return {name: value for name, value in filters.items() if value is not None}


def run_all(
    api: remote.ApiAddress,
    action: str,
    filters: dict[str, str],
    *,
    yes: bool,
    no_wait: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Do one thing to all tasks that match: count them, ask, begin it and show how far it is."""
    asked = {"action": action, "filter": filters, **options}
    seen = remote.call(api, lambda client: client.create_bulk_operation(asked | {"dry_run": True}))
    if not yes and (seen["total"] or seen["total_capped"]):
        output.confirm(_question(action, seen, filters))

    async def run(client: "DocumentClient") -> "Json":
        # Who was asked has confirmed this number.
        expected = {} if yes else {"expect": seen["total"]}
        begun = await client.create_bulk_operation(asked | expected)
        return begun if no_wait else await _until_ended(client, begun, quiet=as_json)

    remote.tell(api, run, _show, as_json=as_json)


def _question(action: str, seen: "Json", filters: dict[str, str]) -> str:
    number = f"{seen['total']}{' or more' if seen['total_capped'] else ''}"
    told = ", ".join(f"{name} {value}" for name, value in filters.items())
    tasks = "task" if number == "1" else "tasks"
    return f"{action.capitalize()} {number} {tasks}{f' with {told}' if told else ''}?"


async def _until_ended(client: "DocumentClient", found: "Json", *, quiet: bool) -> "Json":
    from gnomon.clock import SystemClock  # not above: asyncio takes longer than `--help` may

    clock, first = SystemClock(), True
    operation_id = found["operation_id"]
    if "done" not in found:  # the key may not read
        return found
    again, stop = f"bulk show {operation_id} --watch", f"bulk stop {operation_id}"
    with goes_on("operation", again, stop):
        while found["status"] == "RUNNING":
            if not quiet:
                output.live(progress_bar(found), new=first)
            first = False
            await clock.sleep(_LOOK_SECONDS)
            found = await client.get_bulk_operation(operation_id)
        if not quiet and not first:
            output.live(progress_bar(found), new=False)
            output.live_end()
    return found


def progress_bar(found: "Json") -> str:
    """How far an operation is. Where the end is not known, there are only numbers."""
    if found["total_capped"] or not found["total"]:
        return f"{found['action']}: {_progress(found)}"
    filled = min(_BAR, _BAR * found["done"] // found["total"])
    return f"{found['action']} [{'#' * filled}{'.' * (_BAR - filled)}] {_progress(found)}"


def _progress(found: "Json") -> str:
    return f"{found['done']} of {found['total']}{'+' if found['total_capped'] else ''}"


def _show(found: "Json") -> None:
    if "done" not in found:
        output.echo(f"{found['operation_id']} is {found['status']}")
        return
    output.echo(f"{found['changed']} {_DONE.get(found['action'], 'changed')}")
    for refusal in found["refusals"]:
        output.marked("-", f"{refusal['count']} refused: {refusal['reason']}")
    if found["status"] != "FINISHED":
        output.echo(f"{found['operation_id']} is {found['status']}: {_progress(found)}")
