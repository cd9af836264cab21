"""`gnomon workflows runs`: list, show, watch, cancel, roll back, pause and resume runs."""

from typing import TYPE_CHECKING, Annotated

import typer

from gnomon.cli.shared import output, remote, values
from gnomon.cli.shared.options import ApiUrl, AsJson, Everything, Limit, settings_of
from gnomon.cli.shared.short_ids import id_among
from gnomon.cli.workflows import run_views

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json
    from gnomon.client.client import DocumentClient

_LOOKED_THROUGH = 500  # the newest runs, for an id that is not whole

RunId = Annotated[str, typer.Argument(metavar="ID", help="The run's id.")]
RunIds = Annotated[list[str], typer.Argument(metavar="ID", help="One run or several.")]
Watch = Annotated[bool, typer.Option("--watch", help="Show the tree as it changes, to the end.")]

app = typer.Typer(no_args_is_help=True, help="Runs of workflows.", rich_markup_mode=None)


@app.command("list")
def list_(
    ctx: typer.Context,
    workflow: Annotated[str | None, typer.Option(help="Only of this workflow.")] = None,
    status: Annotated[
        str | None, typer.Option(help="Only with this status, such as FAILED.")
    ] = None,
    limit: Limit = 50,
    everything: Everything = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """List runs, newest first.

    \b
    gnomon workflows runs list --workflow order --status FAILED
    """
    filters = values.given(workflow=workflow, status=None if status is None else status.upper())

    async def run(client: "DocumentClient") -> None:
        found = client.list_workflow_runs(**filters, limit=None if everything else limit)
        await (output.stream("workflow_runs", found) if as_json else run_views.run_list(found))

    remote.call(remote.api_url(settings_of(ctx), api), run)


@app.command()
def show(
    ctx: typer.Context,
    run_id: RunId,
    watch: Watch = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Show a run as a tree of its nodes.

    With --watch it is drawn anew until the run has ended, or a dead letter holds it up; the exit
    code is 1 unless it succeeds.

    \b
    gnomon workflows runs show 0199f3a2-7c1e-7d43 --watch
    """

    async def read(client: "DocumentClient") -> "Json":
        whole = await run_id_of(client, run_id)
        if watch:
            return await run_views.watch(client, whole, quiet=as_json)
        found: Json = await client.get_workflow_run(whole)
        return found

    run = remote.call(remote.api_url(settings_of(ctx), api), read)
    tell(run, as_json=as_json, watched=watch)


@app.command()
def cancel(
    ctx: typer.Context,
    run_ids: RunIds,
    interrupt: Annotated[
        bool, typer.Option("--interrupt", help="Interrupt tasks that are running.")
    ] = False,
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Undo what has completed, the last first.")
    ] = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Cancel runs: what has not started does not start.

    \b
    gnomon workflows runs cancel 0199f3a2-7c1e-7d43 --interrupt
    gnomon workflows runs cancel 0199f3a2-7c1e-7d43 --rollback
    """

    async def act(client: "DocumentClient", run_id: str) -> tuple[str, "Json"]:
        run = await client.cancel_workflow_run(run_id, interrupt=interrupt, rollback=rollback)
        return _told(run), run

    _change_each(ctx, run_ids, act, as_json=as_json, api=api)


@app.command()
def rollback(
    ctx: typer.Context,
    run_ids: RunIds,
    interrupt: Annotated[
        bool, typer.Option("--interrupt", help="Interrupt tasks that are running.")
    ] = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Undo the completed nodes of runs by their compensations, the last first.

    Also of runs that have ended. What has not started does not start.

    \b
    gnomon workflows runs rollback 0199f3a2-7c1e-7d43
    """

    async def act(client: "DocumentClient", run_id: str) -> tuple[str, "Json"]:
        run = await client.roll_back_workflow_run(run_id, interrupt=interrupt)
        return _told(run), run

    _change_each(ctx, run_ids, act, as_json=as_json, api=api)


@app.command()
def retry(
    ctx: typer.Context,
    run_id: RunId,
    nodes: Annotated[
        list[str] | None,
        typer.Option("--from", metavar="NODE", help="Begin here; can be given again."),
    ] = None,
    watch: Watch = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Start a new run from nodes of one that has ended, and print its id.

    These nodes and all below them run again, and the others lend their outputs. Without --from it
    begins at what did not go well.

    \b
    gnomon workflows runs retry 0199f3a2-7c1e-7d43 --from load --watch
    """

    async def act(client: "DocumentClient") -> "Json":
        whole = await run_id_of(client, run_id)
        made: Json = await client.retry_workflow_run(whole, nodes=nodes or ())
        return await started(client, made, watch=watch, as_json=as_json)

    run = remote.call(remote.api_url(settings_of(ctx), api), act)
    tell_started(run, as_json=as_json, watched=watch)


@app.command()
def pause(ctx: typer.Context, run_ids: RunIds, as_json: AsJson = False, api: ApiUrl = None) -> None:
    """Pause runs: what is running goes on, and nothing else starts.

    \b
    gnomon workflows runs pause 0199f3a2-7c1e-7d43
    """

    async def act(client: "DocumentClient", run_id: str) -> tuple[str, "Json"]:
        run = await client.pause_workflow_run(run_id)
        return _told(run), run

    _change_each(ctx, run_ids, act, as_json=as_json, api=api)


@app.command()
def resume(
    ctx: typer.Context, run_ids: RunIds, as_json: AsJson = False, api: ApiUrl = None
) -> None:
    """Let paused runs go on.

    \b
    gnomon workflows runs resume 0199f3a2-7c1e-7d43
    """

    async def act(client: "DocumentClient", run_id: str) -> tuple[str, "Json"]:
        run = await client.resume_workflow_run(run_id)
        return _told(run), run

    _change_each(ctx, run_ids, act, as_json=as_json, api=api)


async def run_id_of(client: "DocumentClient", given: str) -> str:
    """The id of the run whose id begins so, among the newest."""
    listed = client.list_workflow_runs(limit=_LOOKED_THROUGH)
    return await id_among(given, "workflow run", listed, "run_id")


async def started(client: "DocumentClient", run: "Json", *, watch: bool, as_json: bool) -> "Json":
    """A run that was started; with `watch`, once it has ended."""
    if not watch:
        return run
    return await run_views.watch(client, run["run_id"], quiet=as_json)


def tell_started(run: "Json", *, as_json: bool, watched: bool) -> None:
    """Print a run that was started: its id, or all of it where it was watched."""
    if as_json or watched:
        tell(run, as_json=as_json, watched=watched)
        return
    # The id alone on stdout: ID=$(gnomon workflows start ...)
    output.echo(run["run_id"])
    output.note(f"{run['status']}; gnomon workflows runs show {run['run_id']} --watch")


def tell(run: "Json", *, as_json: bool, watched: bool) -> None:
    """Print a run. One that was watched, and has not succeeded, ends the command with 1."""
    if as_json:
        output.document(run)
    else:
        run_views.show(run)
    if watched and run["status"] != "SUCCEEDED":
        raise typer.Exit(1)


def _told(run: "Json") -> str:
    return f"{run['run_id']} is {run['status']}"


def _change_each(
    ctx: typer.Context, run_ids: list[str], act: remote.Act, *, as_json: bool, api: str | None
) -> None:
    address = remote.api_url(settings_of(ctx), api)
    remote.for_each(address, run_ids, act, member="workflow_runs", find=run_id_of, as_json=as_json)
