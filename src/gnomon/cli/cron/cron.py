"""`gnomon cron`: add, list, show, pause, trigger and remove recurring jobs."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnomon.cli.cron import edit, job_views, options, preview, sync
from gnomon.cli.cron.definition import PolicyOptions, ScheduleOptions
from gnomon.cli.shared import output, remote, values
from gnomon.cli.shared.groups import with_groups
from gnomon.cli.shared.options import ApiUrl, AsJson, Everything, Limit, Yes, settings_of
from gnomon.cli.tasks.template import TemplateOptions
from gnomon.client.errors import ApiProblem

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json
    from gnomon.client.client import DocumentClient

RUNS_SHOWN = 5
FIRES_SHOWN = 20
CONFLICT = 409

app = typer.Typer(no_args_is_help=True, help="Recurring jobs.", rich_markup_mode=None)


@app.command()
@with_groups
def add(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the job.")],
    *,
    schedule: ScheduleOptions,
    url: options.Url = None,
    payload: options.Payload = None,
    workflow: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Start runs of this workflow, instead of --url."),
    ] = None,
    policies: PolicyOptions,
    template: TemplateOptions,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace an existing job of that name.")
    ] = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Add a recurring job, and print its id. Without a URL it goes to the handler of its type.

    \b
    gnomon cron add report --cron '0 9 * * MON-FRI' --url http://127.0.0.1:9000/
    gnomon cron add ping --every 15m --from 09:07 --type ping --replace
    gnomon cron add nightly --cron '0 3 * * *' --workflow etl
    """
    job = {"name": name, **schedule.body(), **policies.body()}
    if workflow is None:
        job |= template.body(url)
    else:
        template.task_type = template.task_type or workflow
        job |= template.body(None) | {"target": {"type": "workflow", "workflow": workflow}}
    if payload is not None:
        job["payload_template"] = values.payload_or_file(payload)
    _declare(remote.api_url(settings_of(ctx), api), job, replace=replace, as_json=as_json)


@app.command("list")
def list_(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Option(help="Only names that contain this.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only with this tag.")] = None,
    paused: Annotated[
        bool | None, typer.Option("--paused/--active", help="Only paused or only active jobs.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Only from this source, such as sync:default.")
    ] = None,
    next_before: Annotated[
        Any,
        typer.Option(
            parser=values.moment, metavar="TIME", help="Only jobs that fire before this time."
        ),
    ] = None,
    limit: Limit = 50,
    everything: Everything = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """List recurring jobs, newest first.

    \b
    gnomon cron list --paused
    gnomon cron list --tag billing --next-before '2030-01-31 09:00' --json
    """
    filters = values.given(
        name=name,
        tag=tag,
        paused=None if paused is None else str(paused).lower(),
        source=source,
        next_fire_before=None if next_before is None else values.rfc3339(next_before),
    )

    async def run(client: "DocumentClient") -> None:
        found = client.list_cron_jobs(**filters, limit=None if everything else limit)
        await (output.stream("cron_jobs", found) if as_json else job_views.job_list(found))

    remote.call(remote.api_url(settings_of(ctx), api), run)


@app.command()
def show(ctx: typer.Context, ref: options.Ref, as_json: AsJson = False, api: ApiUrl = None) -> None:
    """Show a job and its latest runs.

    \b
    gnomon cron show report
    """

    async def read(client: "DocumentClient") -> tuple["Json", list["Json"]]:
        job = await client.get_cron_job(ref)
        latest = _runs(client, job["cron_job_id"], RUNS_SHOWN)
        return job, [run async for run in latest]

    job, runs = remote.call(remote.api_url(settings_of(ctx), api), read)
    if as_json:
        output.document({**job, "latest_runs": runs})
    else:
        job_views.show(job, runs)


@app.command()
def runs(
    ctx: typer.Context,
    ref: options.Ref,
    limit: Limit = 50,
    everything: Everything = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """List the runs of a job, latest first.

    \b
    gnomon cron runs report
    """

    async def run(client: "DocumentClient") -> None:
        found = _runs(client, ref, None if everything else limit)
        await (output.stream("runs", found) if as_json else job_views.run_list(found))

    remote.call(remote.api_url(settings_of(ctx), api), run)


@app.command()
def pause(
    ctx: typer.Context,
    refs: options.Refs,
    reason: Annotated[str | None, typer.Option(help="A note for people.")] = None,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Stop a job from firing until it is resumed.

    \b
    gnomon cron pause report --reason 'the warehouse is being moved'
    """

    async def act(client: "DocumentClient", ref: str) -> tuple[str, "Json"]:
        job = await client.pause_cron_job(ref, reason)
        return f"{job['name']} is {job['status']}", job

    _change_each(remote.api_url(settings_of(ctx), api), refs, act, as_json=as_json)


@app.command()
def resume(
    ctx: typer.Context, refs: options.Refs, as_json: AsJson = False, api: ApiUrl = None
) -> None:
    """Let a paused job fire again. Fires during the pause do not count as missed.

    \b
    gnomon cron resume report
    """

    async def act(client: "DocumentClient", ref: str) -> tuple[str, "Json"]:
        job = await client.resume_cron_job(ref)
        return f"{job['name']} is {job['status']}{_next(job)}", job

    _change_each(remote.api_url(settings_of(ctx), api), refs, act, as_json=as_json)


@app.command()
def trigger(
    ctx: typer.Context,
    ref: options.Ref,
    idempotency_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Run only once for this key.")
    ] = None,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Run a job now, besides its schedule, and print the task's id.

    \b
    gnomon cron trigger report
    """
    run = remote.call(
        remote.api_url(settings_of(ctx), api),
        lambda client: client.trigger_cron_job(ref, idempotency_key=idempotency_key),
    )
    if as_json:
        output.document(run)
        return
    # The id alone on stdout: ID=$(gnomon cron trigger ...)
    output.echo(run["run_id"])
    output.note(f"{run['status']}; gnomon tasks show {run['run_id']}")


@app.command()
def backfill(
    ctx: typer.Context,
    ref: options.Ref,
    first: Annotated[
        Any, typer.Option("--from", parser=values.moment, metavar="TIME", help="First time.")
    ],
    last: Annotated[
        Any, typer.Option("--to", parser=values.moment, metavar="TIME", help="Last time.")
    ],
    limit: Annotated[
        int, typer.Option(min=1, max=10_000, help="Refuse more fires than this.")
    ] = 1000,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would run.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Run a job for past fires that had no run, oldest first.

    \b
    gnomon cron backfill report --from 2026-03-01 --to 2026-03-07 --dry-run
    """
    address = remote.api_url(settings_of(ctx), api)
    asked = {"from": values.rfc3339(first), "to": values.rfc3339(last), "limit": limit}

    def call(dry: bool) -> "Json":
        body = {**asked, "dry_run": dry}
        return remote.call(address, lambda client: client.backfill_cron_job(ref, body))

    answer = call(True)
    if not as_json:
        _show_backfill(answer)
    if answer["planned"] and not dry_run:
        if not yes:
            output.confirm(f"Run {ref} for {_fires(answer)}?")
        answer = call(False)
        output.note(f"{_fires(answer)} planned; gnomon cron runs {ref}")
    if as_json:
        output.document(answer)


@app.command("rm")
def remove(
    ctx: typer.Context,
    refs: options.Refs,
    yes: Yes = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Remove jobs, with their runs that have not started. Running ones finish.

    \b
    gnomon cron rm report --yes
    """

    async def act(client: "DocumentClient", ref: str) -> tuple[str, "Json"]:
        await client.delete_cron_job(ref)
        return f"{ref} is removed", {"removed": ref}

    url = remote.api_url(settings_of(ctx), api)
    if not yes:
        output.confirm(f"Remove {', '.join(refs)}?")
    _change_each(url, refs, act, as_json=as_json)


app.command("edit")(edit.edit_job)
app.command("preview")(preview.preview)
app.command("explain")(preview.explain)
app.command("sync")(sync.sync)


def _change_each(
    api: remote.ApiAddress, refs: list[str], act: remote.Act, *, as_json: bool
) -> None:
    remote.for_each(api, refs, act, member="cron_jobs", find=remote.as_given, as_json=as_json)


def _declare(api: remote.ApiAddress, job: "Json", *, replace: bool, as_json: bool) -> None:
    call = _replace if replace else _create
    done = remote.call(api, lambda client: call(client, job))
    job = done["cron_job"]
    if as_json:
        output.document(job)
        return
    # The id alone on stdout: ID=$(gnomon cron add ...)
    output.echo(job["cron_job_id"])
    output.note(f"{job['name']} {done['change']}{_description(job)}{_next(job)}")


async def _create(client: "DocumentClient", job: "Json") -> "Json":
    try:
        return {"change": "created", "cron_job": await client.create_cron_job(job)}
    except ApiProblem as problem:
        if problem.status == CONFLICT:
            raise output.CommandFailed(f"{problem} (with --replace)") from problem
        raise


async def _replace(client: "DocumentClient", job: "Json") -> "Json":
    done: Json = await client.put_cron_job(job["name"], job)
    return done


def _runs(client: "DocumentClient", ref: str, most: int | None) -> Any:
    return client.list_cron_runs(ref, limit=most)


def _description(job: "Json") -> str:
    # A key that may not read is not told of it.
    return f": {job['description']}" if "description" in job else ""


def _next(job: "Json") -> str:
    at = job.get("next_fire_at")
    return f"; next {output.moment(at)}" if at else ""


def _show_backfill(answer: "Json") -> None:
    planned, existing = answer["planned"], len(answer["existing"])
    if planned:
        job_views.fire_rows(planned[:FIRES_SHOWN])
    if len(planned) > FIRES_SHOWN:
        output.note(f"and {len(planned) - FIRES_SHOWN} more, up to {planned[-1]['local']}")
    if existing:
        output.note(f"{existing} in this range had a run already")
    if not planned:
        output.note("nothing to run")


def _fires(answer: "Json") -> str:
    count = len(answer["planned"])
    return "1 fire" if count == 1 else f"{count} fires"
