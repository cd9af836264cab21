"""`gnomon limits`: how many tasks may run at once, or start within a time."""

from typing import Annotated, Any

import typer

from gnomon.cli.shared import output, remote, values
from gnomon.cli.shared.options import ApiUrl, AsJson, settings_of

app = typer.Typer(
    no_args_is_help=True,
    help="Limits on how many tasks run at once, or start within a time.",
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The limiter.", parser=values.path_part)]


@app.command("set")
def set_(
    ctx: typer.Context,
    name: Name,
    concurrency: Annotated[
        int | None, typer.Option(metavar="N", help="At most so many run at once.")
    ] = None,
    rate: Annotated[
        int | None, typer.Option(metavar="N", help="At most so many start within a time.")
    ] = None,
    per: Annotated[
        float, typer.Option("--per", metavar="SECONDS", help="The time in which --rate counts.")
    ] = 1.0,
    task_type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Only tasks of this type.")
    ] = None,
    queue: Annotated[
        str | None, typer.Option(metavar="QUEUE", help="Only tasks of this queue.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="POINTER", help="Separately for each value at this place of the payload."
        ),
    ] = None,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Create a limiter, or replace it, for all that starts from now on.

    \b
    gnomon limits set mail --type email.send --concurrency 5
    gnomon limits set crm --queue crm --rate 100 --per 60
    gnomon limits set each-customer --key /customer_id --concurrency 2
    """
    limiter = {
        "concurrency": concurrency,
        "rate": rate,
        "per_seconds": per,
        "task_type": task_type,
        "queue": queue,
        "key": key,
    }

    address = remote.api_url(settings_of(ctx), api)
    remote.tell(address, lambda client: client.put_limiter(name, limiter), _line, as_json=as_json)


@app.command("list")
def list_(ctx: typer.Context, as_json: AsJson = False, api: ApiUrl = None) -> None:
    """List the limiters, and how much of them is in use.

    \b
    gnomon limits list
    """
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(address, lambda client: client.list_limiters(), _table, as_json=as_json)


@app.command()
def show(ctx: typer.Context, name: Name, as_json: AsJson = False, api: ApiUrl = None) -> None:
    """Show a limiter, and its fullest keys.

    \b
    gnomon limits show each-customer
    """
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(address, lambda client: client.get_limiter(name), _whole, as_json=as_json)


@app.command()
def rm(ctx: typer.Context, name: Name, as_json: AsJson = False, api: ApiUrl = None) -> None:
    """Remove a limiter.

    \b
    gnomon limits rm mail
    """
    address = remote.api_url(settings_of(ctx), api)
    remote.call(address, lambda client: client.delete_limiter(name))
    output.done(f"{name} is removed", {"removed": name}, as_json=as_json)


def _line(limiter: dict[str, Any]) -> None:
    output.echo(f"{limiter['name']}: {_limit(limiter)}, {_scope(limiter)}")


def _table(answer: dict[str, Any]) -> None:
    if not answer["limiters"]:
        output.note("nothing is limited")
        return
    output.table(
        ["limiter", "limit", "of", "running", "started", "waiting"],
        [
            (
                each["name"],
                _limit(each),
                _scope(each),
                str(each["running"]),
                _started(each),
                _waiting(each),
            )
            for each in answer["limiters"]
        ],
    )


def _whole(limiter: dict[str, Any]) -> None:
    _line(limiter)
    output.echo(f"running: {limiter['running']}")
    if limiter["rate"] is not None:
        output.echo(f"started: {_started(limiter)}")
    output.echo(f"waiting: {_waiting(limiter)}")
    if limiter.get("keys"):
        rows = [
            (e["key"], str(e["running"]), str(e["started"]), _waiting(e)) for e in limiter["keys"]
        ]
        output.table(["key", "running", "started", "waiting"], rows)


def _limit(limiter: dict[str, Any]) -> str:
    parts = []
    if limiter["concurrency"] is not None:
        parts.append(f"{limiter['concurrency']} at once")
    if limiter["rate"] is not None:
        parts.append(f"{limiter['rate']} starts in {limiter['per_seconds']:g} s")
    return " and ".join(parts)


def _scope(limiter: dict[str, Any]) -> str:
    parts = []
    if limiter["task_type"] is not None:
        parts.append(f"type {limiter['task_type']}")
    if limiter["queue"] is not None:
        parts.append(f"queue {limiter['queue']}")
    if limiter["key"] is not None:
        parts.append(f"each {limiter['key']}")
    return ", ".join(parts) or "all tasks"


def _started(limiter: dict[str, Any]) -> str:
    return "-" if limiter["rate"] is None else str(limiter["started"])


def _waiting(use: dict[str, Any]) -> str:
    return f"{use['waiting']['count']}{'+' if use['waiting']['capped'] else ''}"
