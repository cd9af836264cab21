"""`gnomon feeds`: outcomes of tasks, published to brokers."""

from typing import Annotated, Any

import typer

from gnomon.cli.shared import output, remote, values
from gnomon.cli.shared.options import ApiUrl, AsJson, settings_of
from gnomon.model.insight.outcome_feed import FeedOutcome

app = typer.Typer(
    no_args_is_help=True,
    help="Feeds: how tasks ended, published to Redis, RabbitMQ or Kafka.",
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The feed.", parser=values.path_part)]


@app.command("set")
def set_(
    ctx: typer.Context,
    name: Name,
    url: Annotated[
        str, typer.Option("--url", metavar="URL", help="Where to: queue://connection/topic.")
    ],
    task_types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="Only tasks of this type; may be repeated."),
    ] = None,
    outcomes: Annotated[
        list[FeedOutcome] | None,
        typer.Option("--outcome", help="Only this outcome; may be repeated."),
    ] = None,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Create a feed, or replace it, for all tasks that end from now on.

    \b
    gnomon feeds set results --url queue://orders/results
    gnomon feeds set dead --url queue://orders/dead --outcome dead_lettered
    """
    feed: dict[str, Any] = {"url": url}
    if task_types:
        feed["task_types"] = task_types
    if outcomes:
        feed["outcomes"] = outcomes
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(address, lambda client: client.put_feed(name, feed), _line, as_json=as_json)


@app.command("list")
def list_(ctx: typer.Context, as_json: AsJson = False, api: ApiUrl = None) -> None:
    """List the feeds, and what waits for them.

    \b
    gnomon feeds list
    """
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(address, lambda client: client.list_feeds(), _table, as_json=as_json)


@app.command()
def show(ctx: typer.Context, name: Name, as_json: AsJson = False, api: ApiUrl = None) -> None:
    """Show a feed: what it has published, what waits, and why.

    \b
    gnomon feeds show results
    """
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(address, lambda client: client.get_feed(name), _whole, as_json=as_json)


@app.command()
def rm(ctx: typer.Context, name: Name, as_json: AsJson = False, api: ApiUrl = None) -> None:
    """Remove a feed, with what waits for it.

    \b
    gnomon feeds rm results
    """
    address = remote.api_url(settings_of(ctx), api)
    remote.call(address, lambda client: client.delete_feed(name))
    output.done(f"{name} is removed", {"removed": name}, as_json=as_json)


def _line(feed: dict[str, Any]) -> None:
    output.echo(f"{feed['name']}: {_what(feed)} to {feed['url']}")


def _table(answer: dict[str, Any]) -> None:
    if not answer["feeds"]:
        output.note("there are no feeds")
        return
    output.table(
        ["feed", "of", "to", "published", "waiting", "state"],
        [
            (
                each["name"],
                _what(each),
                each["url"],
                str(each["published"]),
                _backlog(each),
                _state(each),
            )
            for each in answer["feeds"]
        ],
    )


def _whole(feed: dict[str, Any]) -> None:
    _line(feed)
    output.echo(f"published: {feed['published']}")
    output.echo(f"waiting: {_backlog(feed)}")
    if feed["waiting_since"] is not None:
        output.echo(f"waiting since: {feed['waiting_since']}")
    if feed["gap_since"] is not None:
        output.echo(f"outcomes are not told since: {feed['gap_since']}")
    if feed["last_error"] is not None:
        output.echo(f"failing since {feed['failing_since']}: {feed['last_error']}")


def _what(feed: dict[str, Any]) -> str:
    outcomes = feed["outcomes"]
    told = "all outcomes" if len(outcomes) == len(FeedOutcome) else ", ".join(outcomes)
    types = feed["task_types"]
    return told if types is None else f"{told} of {', '.join(types)}"


def _backlog(feed: dict[str, Any]) -> str:
    return f"{feed['backlog']['count']}{'+' if feed['backlog']['capped'] else ''}"


def _state(feed: dict[str, Any]) -> str:
    if feed["gap_since"] is not None:
        return "gap"
    return "ok" if feed["failing_since"] is None else "failing"
