"""`gnomon batches`: open, list, show, watch, close and cancel batches."""

from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnomon.cli.shared import output, remote, values
from gnomon.cli.shared.options import ApiUrl, AsJson, Everything, Limit, settings_of
from gnomon.cli.shared.output import age, moment
from gnomon.cli.shared.short_ids import id_among
from gnomon.cli.shared.tables import Column, Fit
from gnomon.cli.shared.waiting import goes_on, states

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json
    from gnomon.client.client import DocumentClient

_LOOKED_THROUGH = 500  # the newest batches, for an id that is not whole
_BAR = 30
_COLUMNS = (
    Column("id", Fit.ID),
    Column("name", Fit.NAME, rank=1),
    Column("status", Fit.WHOLE),
    Column("tasks", Fit.WHOLE),
    Column("failed", Fit.WHOLE),
    Column("pending", Fit.WHOLE),
    Column("opened", Fit.WHOLE, rank=2),
)

BatchId = Annotated[str, typer.Argument(metavar="ID", help="The batch's id.")]
BatchIds = Annotated[list[str], typer.Argument(metavar="ID", help="One batch or several.")]
Watch = Annotated[bool, typer.Option("--watch", help="Show its progress, to the end.")]

app = typer.Typer(no_args_is_help=True, help="Batches of tasks.", rich_markup_mode=None)


@app.command("open")
def open_(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Option(help="A name for people.")] = None,
    on_success: Annotated[
        str | None, typer.Option(metavar="TYPE|URL", help="Runs when all have succeeded.")
    ] = None,
    on_complete: Annotated[
        str | None, typer.Option(metavar="TYPE|URL", help="Runs when all have ended.")
    ] = None,
    close_within: Annotated[
        Any,
        typer.Option(
            parser=values.duration, metavar="DURATION", help="Else it expires: 90s, 5m, 2h or 1d."
        ),
    ] = None,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Open a batch, and print its id. Callbacks get {"batch_id"} as their payload.

    \b
    BATCH=$(gnomon batches open --on-complete http://127.0.0.1:9000/done)
    gnomon submit http://127.0.0.1:9000/hello --batch $BATCH
    gnomon batches close $BATCH --watch
    """
    body = values.given(
        name=name,
        on_success=values.callback(on_success),
        on_complete=values.callback(on_complete),
        close_within_seconds=close_within,
    )
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(address, lambda client: client.open_batch(body), _tell_opened, as_json=as_json)


@app.command("list")
def list_(
    ctx: typer.Context,
    status: Annotated[str | None, typer.Option(help="Only with this status, such as OPEN.")] = None,
    limit: Limit = 50,
    everything: Everything = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """List batches, newest first.

    \b
    gnomon batches list --status FAILED
    """
    filters = values.given(status=None if status is None else status.upper())

    async def run(client: "DocumentClient") -> None:
        found = client.list_batches(**filters, limit=None if everything else limit)
        await (output.stream("batches", found) if as_json else _table(found))

    remote.call(remote.api_url(settings_of(ctx), api), run)


@app.command()
def show(
    ctx: typer.Context,
    batch_id: BatchId,
    watch: Watch = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Show a batch and its progress.

    With --watch a line shows the progress until all tasks have ended; the exit code is 1 unless
    all have succeeded.

    \b
    gnomon batches show 0199f3a2-7c1e-7d43 --watch
    """

    async def read(client: "DocumentClient") -> "Json":
        whole = await _id_of(client, batch_id)
        if watch:
            return await _until_ended(client, whole, quiet=as_json)
        found: Json = await client.get_batch(whole)
        return found

    _tell(remote.call(remote.api_url(settings_of(ctx), api), read), as_json=as_json, watched=watch)


@app.command()
def close(
    ctx: typer.Context,
    batch_id: BatchId,
    watch: Watch = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Close a batch: nothing more is put in, and its callbacks follow its tasks.

    \b
    gnomon batches close 0199f3a2-7c1e-7d43 --watch
    """

    async def act(client: "DocumentClient") -> "Json":
        whole = await _id_of(client, batch_id)
        closed = await client.close_batch(whole)
        return await _until_ended(client, whole, quiet=as_json) if watch else closed

    _tell(remote.call(remote.api_url(settings_of(ctx), api), act), as_json=as_json, watched=watch)


@app.command()
def cancel(
    ctx: typer.Context,
    batch_ids: BatchIds,
    interrupt: Annotated[
        bool, typer.Option("--interrupt", help="Interrupt tasks that are running.")
    ] = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Cancel batches: what has not started does not start, and no callback runs.

    \b
    gnomon batches cancel 0199f3a2-7c1e-7d43 --interrupt
    """

    async def act(client: "DocumentClient", batch_id: str) -> tuple[str, "Json"]:
        found = await client.cancel_batch(batch_id, interrupt=interrupt)
        return f"{found['batch_id']} is {found['status']}", found

    address = remote.api_url(settings_of(ctx), api)
    remote.for_each(address, batch_ids, act, member="batches", find=_id_of, as_json=as_json)


def progress_line(batch: "Json") -> str:
    """How far a batch is."""
    counts = batch["progress"]
    ended, total = counts["total"] - counts["pending"], counts["total"]
    filled = _BAR * ended // total if total else _BAR
    told = [f"{ended} of {total}"]
    told += [f"{counts[each]} {each}" for each in ("failed", "cancelled") if counts[each]]
    bar = f"[{'#' * filled}{'.' * (_BAR - filled)}]"
    return f"{batch['status']} {bar} {', '.join(told)}"


async def _id_of(client: "DocumentClient", given: str) -> str:
    """The id of the batch whose id begins so, among the newest."""
    return await id_among(given, "batch", client.list_batches(limit=_LOOKED_THROUGH), "batch_id")


async def _table(found: AsyncIterable["Json"]) -> None:
    from gnomon.clock import SystemClock

    at = SystemClock().now()
    rows = [
        (
            batch["batch_id"],
            batch["name"] or "",
            batch["status"],
            *(str(batch["progress"][each]) for each in ("total", "failed", "pending")),
            age(batch["created_at"], at),
        )
        async for batch in found
    ]
    if rows:
        output.table(_COLUMNS, rows)
    else:
        output.note("no batches")


async def _until_ended(client: "DocumentClient", batch_id: str, *, quiet: bool) -> "Json":
    """The batch once all of its tasks have ended. Until then a line shows its progress, unless
    `quiet`."""

    async def read(seconds: float | None) -> "Json":
        found: Json = await client.get_batch(batch_id, wait=seconds)
        return found

    told = None
    with goes_on("batch", f"batches show {batch_id} --watch", f"batches cancel {batch_id}"):
        async for batch in states(read, lambda batch: batch["finished_at"] is not None):
            if not quiet:
                output.live(progress_line(batch), new=told is None)
            told = batch
        if not quiet:
            output.live_end()
    assert told is not None, "it was read once"
    return told


def _tell_opened(batch: "Json") -> None:
    # The id alone on stdout: BATCH=$(gnomon batches open)
    output.echo(batch["batch_id"])
    output.note(f"{batch['status']}; gnomon batches close {batch['batch_id']}")


def _tell(batch: "Json", *, as_json: bool, watched: bool) -> None:
    """Print a batch. One that was watched, and has not succeeded, ends the command with 1."""
    if as_json:
        output.document(batch)
    elif "progress" not in batch:  # the key may not read
        output.echo(f"{batch['batch_id']} is {batch['status']}")
    else:
        _show(batch)
    if watched and batch["status"] != "SUCCEEDED":
        raise typer.Exit(1)


def _show(batch: "Json") -> None:
    output.fields(
        [
            ("batch", batch["batch_id"]),
            ("name", batch["name"] or ""),
            ("status", progress_line(batch)),
            ("reason", batch["reason"] or ""),
            ("on success", batch["on_success"] or ""),
            ("on complete", batch["on_complete"] or ""),
            ("opened", moment(batch["created_at"])),
            ("close by", moment(batch["close_by"]) if batch["status"] == "OPEN" else ""),
            ("closed", moment(batch["closed_at"])),
            ("ended", moment(batch["finished_at"])),
            ("tasks", f"gnomon tasks list --batch {batch['batch_id']}"),
        ]
    )
