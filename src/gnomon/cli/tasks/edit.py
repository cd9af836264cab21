"""`gnomon tasks edit`: change a waiting task in an editor."""

from typing import TYPE_CHECKING

import typer

from gnomon.cli.shared import editor, output, remote
from gnomon.cli.shared.options import ApiUrl, AsJson, TaskId, Yes, settings_of
from gnomon.cli.shared.short_ids import task_id_of

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json
    from gnomon.client.client import DocumentClient

FIELDS = (
    "name",
    "payload",
    "execute_at",
    "expires_at",
    "target",
    "priority",
    "retry_policy",
    "timeout_seconds",
    "tags",
    "queue",
    "preemptible",
    "keep_payload",
    "sla_seconds",
    "warn_after_seconds",
)


def edit_task(
    ctx: typer.Context,
    task_id: TaskId,
    yes: Yes = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Change a waiting task in your editor ($VISUAL, $EDITOR, else vi).

    Shows the difference before it is sent. What is refused can be edited again.

    \b
    gnomon tasks edit 0199f3a2-7c1e-7d43
    """
    address = remote.api_url(settings_of(ctx), api)

    async def read(client: "DocumentClient") -> "Json":
        task: Json = await client.get_task(await task_id_of(client, task_id))
        return task

    task = remote.call(address, read)
    whole = task["task_id"]
    done = editor.edited(
        f"task {whole}",
        {name: task[name] for name in FIELDS},
        lambda changes: remote.call(address, lambda client: client.patch_task(whole, changes)),
        yes=yes,
    )
    changed = task if done is None else done[1]
    if as_json:
        output.document(changed)
    else:
        output.echo(f"{whole} is {'unchanged' if done is None else 'changed'}")
