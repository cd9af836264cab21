"""`gnomon tasks`: list, show, watch, cancel, pause, retry, edit and delete tasks."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnomon.cli.shared import output, remote, values
from gnomon.cli.shared.options import (
    ApiUrl,
    AsJson,
    Everything,
    Limit,
    QueueFilter,
    TagFilter,
    TaskId,
    TaskIds,
    TypeFilter,
    Yes,
    settings_of,
)
from gnomon.cli.shared.short_ids import task_id_of
from gnomon.cli.tasks import bulk, edit, reschedule, statuses, tail, views, watching
from gnomon.cli.tasks.stats import stats
from gnomon.cli.tasks.template import PriorityName

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json
    from gnomon.client.client import DocumentClient

app = typer.Typer(no_args_is_help=True, help="List, show and change tasks.", rich_markup_mode=None)
app.command()(stats)


@app.command("list", epilog=statuses.LEGEND)
def list_(
    ctx: typer.Context,
    status: bulk.StatusFilter = None,
    task_type: TypeFilter = None,
    priority: Annotated[
        PriorityName | None, typer.Option(case_sensitive=False, help="Only of this priority.")
    ] = None,
    tag: TagFilter = None,
    queue: QueueFilter = None,
    batch: Annotated[str | None, typer.Option(metavar="ID", help="Only of this batch.")] = None,
    due_before: Annotated[
        Any, typer.Option(parser=values.moment, metavar="TIME", help="Only due before this time.")
    ] = None,
    due_after: Annotated[
        Any, typer.Option(parser=values.moment, metavar="TIME", help="Only due after this time.")
    ] = None,
    limit: Limit = 50,
    everything: Everything = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """List tasks, newest first.

    \b
    gnomon tasks list --status FAILED --type email.send
    gnomon tasks list --tag customer-42 --due-after 2030-01-01 --all --json
    """
    filters = {
        name: _query_value(value)
        for name, value in {
            "status": status,
            "task_type": task_type,
            "priority": priority,
            "tag": tag,
            "queue": queue,
            "batch_id": batch,
            "due_before": due_before,
            "due_after": due_after,
        }.items()
        if value is not None
    }

    async def run(client: "DocumentClient") -> None:
        found = client.list_tasks(**filters, limit=None if everything else limit)
        await (output.stream("tasks", found) if as_json else views.task_list(found))

    remote.call(remote.api_url(settings_of(ctx), api), run)


@app.command()
def show(
    ctx: typer.Context,
    task_id: TaskId,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="The tracebacks of all executions, not of the last.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it until it has ended, with every change.")
    ] = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Show a task and its executions.

    \b
    gnomon tasks show 0199f3a2-7c1e-7d43-a7f5-0c6a53a9d1f0
    gnomon tasks show ID --traceback
    gnomon tasks show 0199f3a2-7c1e-7d43 --watch
    """

    async def read(client: "DocumentClient") -> "Json":
        whole = await task_id_of(client, task_id)
        if watch:
            return await watching.until_over(client, whole, quiet=as_json)
        return await views.read(client, whole)

    task = remote.call(remote.api_url(settings_of(ctx), api), read)
    if as_json:
        output.document(task)
    else:
        views.show(task, all_tracebacks=traceback)


@app.command()
def transitions(
    ctx: typer.Context, task_id: TaskId, as_json: AsJson = False, api: ApiUrl = None
) -> None:
    """Show every change of state of a task whose type logs them.

    A task that was deleted has left its transitions: give its whole id.

    \b
    gnomon types set email.send --log-transitions
    gnomon tasks transitions ID
    """

    async def run(client: "DocumentClient") -> None:
        found = client.list_transitions(await task_id_of(client, task_id))
        await (output.stream("transitions", found) if as_json else views.transition_list(found))

    remote.call(remote.api_url(settings_of(ctx), api), run)


@app.command()
def explain(
    ctx: typer.Context, task_id: TaskId, as_json: AsJson = False, api: ApiUrl = None
) -> None:
    """Explain why a task has not run yet, how it ended, or what to do about a dead letter.

    \b
    gnomon tasks explain ID
    """

    async def ask(client: "DocumentClient") -> "Json":
        answer: Json = await client.explain_task(await task_id_of(client, task_id))
        return answer

    def tell(answer: "Json") -> None:
        output.paragraph(answer["summary"])
        for fact in answer["facts"]:
            output.marked("-", fact)
        for remedy in answer["remedies"]:
            output.marked(">", remedy)

    remote.tell(remote.api_url(settings_of(ctx), api), ask, tell, as_json=as_json)


@app.command()
def cancel(
    ctx: typer.Context,
    task_ids: bulk.SomeTaskIds = None,
    interrupt: Annotated[
        bool, typer.Option("--interrupt", help="Also cancel tasks that are running.")
    ] = False,
    everything: bulk.AllMatching = False,
    status: bulk.StatusFilter = None,
    task_type: TypeFilter = None,
    tag: TagFilter = None,
    queue: QueueFilter = None,
    yes: Yes = False,
    no_wait: bulk.NoWait = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Cancel tasks that have not finished.

    \b
    gnomon tasks cancel ID
    gnomon tasks cancel ID ID --interrupt
    gnomon tasks cancel --all --tag customer-42
    """
    filters = bulk.given_filters(status=status, task_type=task_type, tag=tag, queue=queue)
    bulk.check_chosen(task_ids, filters, everything=everything)
    url = remote.api_url(settings_of(ctx), api)
    if not task_ids:
        bulk.run_all(
            url, "cancel", filters, yes=yes, no_wait=no_wait, as_json=as_json, interrupt=interrupt
        )
        return

    async def act(client: "DocumentClient", task_id: str) -> tuple[str, "Json"]:
        task = await client.cancel_task(task_id, interrupt=interrupt)
        if task["status"] == "RUNNING":
            return f"{task_id} is being interrupted", task
        return f"{task_id} is {task['status']}", task

    change_each(url, task_ids, act, as_json=as_json)


@app.command()
def pause(
    ctx: typer.Context, task_ids: TaskIds, as_json: AsJson = False, api: ApiUrl = None
) -> None:
    """Keep waiting tasks from running until they are resumed.

    \b
    gnomon tasks pause ID ID
    """
    _act(remote.api_url(settings_of(ctx), api), task_ids, "pause", as_json=as_json)


@app.command()
def resume(
    ctx: typer.Context, task_ids: TaskIds, as_json: AsJson = False, api: ApiUrl = None
) -> None:
    """Let paused tasks run when they are due, or now if that is past.

    \b
    gnomon tasks resume ID
    """
    _act(remote.api_url(settings_of(ctx), api), task_ids, "resume", as_json=as_json)


@app.command()
def retry(
    ctx: typer.Context, task_ids: TaskIds, as_json: AsJson = False, api: ApiUrl = None
) -> None:
    """Run tasks again: a dead letter under its id, a finished task as a new task.

    \b
    gnomon tasks retry ID
    """
    _act(remote.api_url(settings_of(ctx), api), task_ids, "retry", as_json=as_json)


@app.command()
def delete(
    ctx: typer.Context,
    task_ids: bulk.SomeTaskIds = None,
    everything: bulk.AllMatching = False,
    status: bulk.StatusFilter = None,
    task_type: TypeFilter = None,
    tag: TagFilter = None,
    queue: QueueFilter = None,
    yes: Yes = False,
    no_wait: bulk.NoWait = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Delete tasks with their payload and executions.

    \b
    gnomon tasks delete ID --yes
    gnomon tasks delete --all --status cancelled --tag customer-42
    """
    filters = bulk.given_filters(status=status, task_type=task_type, tag=tag, queue=queue)
    bulk.check_chosen(task_ids, filters, everything=everything)
    url = remote.api_url(settings_of(ctx), api)
    if not task_ids:
        bulk.run_all(url, "delete", filters, yes=yes, no_wait=no_wait, as_json=as_json)
        return

    async def act(client: "DocumentClient", task_id: str) -> tuple[str, "Json"]:
        await client.delete_task(task_id)
        return f"{task_id} is deleted", {"task_id": task_id}

    if not yes:
        output.confirm(f"Delete {', '.join(task_ids)}?")
    change_each(url, task_ids, act, as_json=as_json)


app.command("edit")(edit.edit_task)
app.command("reschedule")(reschedule.reschedule)
app.command("tail")(tail.tail)


def change_each(
    api: remote.ApiAddress, task_ids: list[str], act: remote.Act, *, as_json: bool
) -> None:
    """Do one thing to each of these tasks."""
    remote.for_each(api, task_ids, act, member="tasks", find=task_id_of, as_json=as_json)


def _act(api: remote.ApiAddress, task_ids: list[str], verb: str, *, as_json: bool) -> None:
    async def act(client: "DocumentClient", task_id: str) -> tuple[str, "Json"]:
        calls = {
            "pause": client.pause_task,
            "resume": client.resume_task,
            "retry": client.retry_task,
        }
        task = await calls[verb](task_id)
        if task["task_id"] != task_id:
            return f"{task_id} runs again as {task['task_id']}", task
        return f"{task_id} is {task['status']}", task

    change_each(api, task_ids, act, as_json=as_json)


def _query_value(value: str | datetime) -> str:
    return values.rfc3339(value) if isinstance(value, datetime) else str(value)
