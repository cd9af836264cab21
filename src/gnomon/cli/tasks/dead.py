"""`gnomon dead`: dead letters, tasks that have used up their retries."""

from typing import TYPE_CHECKING, Annotated

import typer

from gnomon.cli.shared import output, remote
from gnomon.cli.shared.groups import OptionGroup, with_groups
from gnomon.cli.shared.options import (
    ApiUrl,
    AsJson,
    Everything,
    Limit,
    QueueFilter,
    TagFilter,
    TaskId,
    TypeFilter,
    Yes,
    settings_of,
)
from gnomon.cli.shared.short_ids import task_id_of
from gnomon.cli.tasks import bulk, views
from gnomon.cli.tasks.tasks import change_each

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json
    from gnomon.client.client import DocumentClient

DeadIds = Annotated[list[str] | None, typer.Argument(metavar="ID")]
FingerprintFilter = Annotated[
    str | None,
    typer.Option("--fingerprint", help="Only of this group: see `gnomon dead groups`."),
]
Note = Annotated[str | None, typer.Option("--note", help="Why; kept with the resolution.")]
Resolved = Annotated[
    bool, typer.Option("--resolved", help="Those that were resolved, the last of them first.")
]


class DeadChoice(OptionGroup, kw_only=True):
    """Which dead letters an action is for, beside ids, and how it is told."""

    everything: bulk.AllMatching = False
    task_type: TypeFilter = None
    tag: TagFilter = None
    queue: QueueFilter = None
    error: bulk.ErrorFilter = None
    fingerprint: FingerprintFilter = None
    yes: Yes = False
    no_wait: bulk.NoWait = False
    as_json: AsJson = False
    api: ApiUrl = None

    def filters(self) -> dict[str, str]:
        return bulk.given_filters(
            task_type=self.task_type,
            tag=self.tag,
            queue=self.queue,
            error=self.error,
            fingerprint=self.fingerprint,
        )


app = typer.Typer(
    no_args_is_help=True,
    help="Dead letters: tasks that have used up their retries.",
    rich_markup_mode=None,
)


@app.command("list")
def list_(
    ctx: typer.Context,
    task_type: TypeFilter = None,
    tag: TagFilter = None,
    queue: QueueFilter = None,
    fingerprint: FingerprintFilter = None,
    resolved: Resolved = False,
    limit: Limit = 50,
    everything: Everything = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """List unresolved dead letters, newest first; or those that were resolved.

    \b
    gnomon dead list --type email.send
    gnomon dead list --resolved
    """
    filters = bulk.given_filters(task_type=task_type, tag=tag, queue=queue, fingerprint=fingerprint)

    async def run(client: "DocumentClient") -> None:
        most = None if everything else limit
        found = client.list_dead_letters(**filters, resolved=resolved, limit=most)
        if as_json:
            await output.stream("dead_letters", found)
        else:
            await (views.resolved_list if resolved else views.dead_list)(found)

    remote.call(remote.api_url(settings_of(ctx), api), run)


@app.command()
def groups(
    ctx: typer.Context,
    task_type: TypeFilter = None,
    limit: Limit = 50,
    everything: Everything = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Group unresolved dead letters by type and error, the newest death first.

    \b
    gnomon dead groups
    gnomon dead retry --all --fingerprint 0123456789abcdef
    """

    async def run(client: "DocumentClient") -> None:
        filters = bulk.given_filters(task_type=task_type)
        found = client.list_dead_letter_groups(**filters, limit=None if everything else limit)
        await (output.stream("groups", found) if as_json else views.group_list(found))

    remote.call(remote.api_url(settings_of(ctx), api), run)


@app.command()
def show(ctx: typer.Context, task_id: TaskId, as_json: AsJson = False, api: ApiUrl = None) -> None:
    """Show a dead letter and its executions.

    \b
    gnomon dead show ID
    """

    async def read(client: "DocumentClient") -> "Json":
        full_id = await task_id_of(client, task_id)
        task = await views.read(client, full_id)
        if task.get("resolution"):
            task |= await client.get_dead_letter(full_id)
        return task

    remote.tell(remote.api_url(settings_of(ctx), api), read, views.show, as_json=as_json)


@app.command()
@with_groups
def retry(ctx: typer.Context, task_ids: DeadIds = None, *, chosen: DeadChoice) -> None:
    """Run dead letters again now, with all their retries.

    \b
    gnomon dead retry ID ID
    gnomon dead retry --all --type email.send --error "connection refused"
    """
    _resolve(ctx, "retry", task_ids, chosen)


@app.command()
@with_groups
def archive(
    ctx: typer.Context, task_ids: DeadIds = None, *, chosen: DeadChoice, note: Note = None
) -> None:
    """Archive dead letters that have been dealt with. Their history is kept.

    \b
    gnomon dead archive ID --note "paid by hand"
    gnomon dead archive --all --type email.send
    """
    _resolve(ctx, "archive", task_ids, chosen, note)


@app.command()
@with_groups
def discard(
    ctx: typer.Context, task_ids: DeadIds = None, *, chosen: DeadChoice, note: Note = None
) -> None:
    """Discard dead letters that are not needed. Their history is kept.

    \b
    gnomon dead discard ID
    gnomon dead discard --all --fingerprint 0123456789abcdef --note "a test"
    """
    _resolve(ctx, "discard", task_ids, chosen, note)


def _resolve(
    ctx: typer.Context,
    action: str,
    task_ids: list[str] | None,
    chosen: DeadChoice,
    note: str | None = None,
) -> None:
    filters = chosen.filters()
    bulk.check_chosen(task_ids, filters, everything=chosen.everything, what="dead letters")
    url, noted = remote.api_url(settings_of(ctx), chosen.api), bulk.given_filters(note=note)
    if task_ids:
        _act(url, task_ids, action, as_json=chosen.as_json, **noted)
    else:
        bulk.run_all(
            url,
            action,
            filters,
            yes=chosen.yes,
            no_wait=chosen.no_wait,
            as_json=chosen.as_json,
            **noted,
        )


def _act(
    url: remote.ApiAddress, task_ids: list[str], verb: str, *, as_json: bool, **options: str
) -> None:
    async def act(client: "DocumentClient", task_id: str) -> tuple[str, "Json"]:
        calls = {
            "retry": client.retry_dead_letter,
            "archive": client.archive_dead_letter,
            "discard": client.discard_dead_letter,
        }
        task = await calls[verb](task_id, **options)
        return f"{task_id} is {task.get('resolution') or task['status']}", task

    change_each(url, task_ids, act, as_json=as_json)
