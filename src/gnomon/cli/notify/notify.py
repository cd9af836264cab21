"""`gnomon notify`: who is told of dead letters, missed SLAs and other events."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnomon.cli.notify.subscription_options import ChannelOptions, RuleOptions
from gnomon.cli.notify.subscription_views import line_of, log_of, rows, told, whole
from gnomon.cli.shared import output, remote, values
from gnomon.cli.shared.groups import with_groups
from gnomon.cli.shared.installation import Installation, of
from gnomon.cli.shared.options import ApiUrl, AsJson, settings_of
from gnomon.cli.shared.values import given

if TYPE_CHECKING:
    from gnomon.cli.shared.remote import Json
    from gnomon.client.client import DocumentClient

app = typer.Typer(
    no_args_is_help=True,
    help="Subscriptions: who is told of events, by webhook, chat or e-mail.",
    rich_markup_mode=None,
)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The subscription.", parser=values.path_part)
]
_ENDED = ("COMPLETED", "DEAD_LETTERED", "CANCELLED", "EXPIRED")
_LOOK_SECONDS = 0.2
_MOST_LOOKS = 300  # a minute


@app.command()
@with_groups
def add(
    ctx: typer.Context,
    name: Name,
    channel: ChannelOptions,
    rules: RuleOptions,
    installation: Installation = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Add a subscription, or replace it; without a channel, the one that it has stays.

    \b
    gnomon notify add ops --webhook http://127.0.0.1:9000/alarm
    gnomon notify add oncall --email ops@example.com --quiet 22:00-07:00
    """
    body = {"channel": channel.document(), **rules.document()}
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(
        address,
        lambda client: of(client, "put_subscription", installation)(name, given(**body)),
        line_of,
        as_json=as_json,
    )


@app.command("list")
def list_(
    ctx: typer.Context,
    installation: Installation = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """List subscriptions, and whether they can be told.

    \b
    gnomon notify list
    """
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(
        address,
        lambda client: of(client, "list_subscriptions", installation)(),
        rows,
        as_json=as_json,
    )


@app.command()
def show(
    ctx: typer.Context,
    name: Name,
    installation: Installation = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Show a subscription, and its last notifications.

    \b
    gnomon notify show ops
    """

    async def ask(client: "DocumentClient") -> "Json":
        found = await of(client, "get_subscription", installation)(name)
        sent = await of(client, "list_notifications", installation)(name)
        return {**found, **sent}

    remote.tell(remote.api_url(settings_of(ctx), api), ask, whole, as_json=as_json)


@app.command("test")
def send_test(
    ctx: typer.Context,
    name: Name,
    installation: Installation = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Send a test now, and tell what the receiver answered.

    \b
    gnomon notify test ops
    """

    async def ask(client: "DocumentClient") -> "Json":
        from gnomon.clock import SystemClock

        sent: Any = await of(client, "send_test", installation)(name)
        for _ in range(_MOST_LOOKS):
            if sent["status"] in _ENDED:
                break
            await SystemClock().sleep(_LOOK_SECONDS)
            number = sent["notification_id"]
            sent = await of(client, "get_notification", installation)(name, number)
        return dict(sent)

    answer = remote.call(remote.api_url(settings_of(ctx), api), ask)
    if as_json:
        output.document(answer)
    else:
        told(name, answer)
    if answer["status"] != "COMPLETED":
        raise typer.Exit(1)


@app.command("log")
def show_log(ctx: typer.Context, as_json: AsJson = False, api: ApiUrl = None) -> None:
    """List the newest notifications of all subscriptions, for operators.

    \b
    gnomon notify log
    """
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(address, lambda client: client.list_all_notifications(), log_of, as_json=as_json)


@app.command()
def mute(
    ctx: typer.Context,
    name: Name,
    seconds: Annotated[
        float, typer.Argument(parser=values.duration, metavar="TIME", help="For so long: 2h.")
    ],
    installation: Installation = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Tell a subscription of nothing for a while.

    \b
    gnomon notify mute ops 2h
    """
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(
        address,
        lambda client: of(client, "mute_subscription", installation)(name, seconds=seconds),
        line_of,
        as_json=as_json,
    )


@app.command()
def unmute(
    ctx: typer.Context,
    name: Name,
    installation: Installation = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Tell a subscription of everything again.

    \b
    gnomon notify unmute ops
    """
    address = remote.api_url(settings_of(ctx), api)
    remote.tell(
        address,
        lambda client: of(client, "unmute_subscription", installation)(name),
        line_of,
        as_json=as_json,
    )


@app.command()
def confirm(
    ctx: typer.Context,
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="As it was sent by e-mail.")],
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Agree to notifications by e-mail, with the token that was sent to the address.

    \b
    gnomon notify confirm dV1mKq8vYwJp3sN0
    """
    address = remote.api_url(settings_of(ctx), api)
    answer = remote.call(address, lambda client: client.confirm_subscription(token=token))
    output.done(f"the address of {answer['name']} is confirmed", answer, as_json=as_json)


@app.command()
def remove(
    ctx: typer.Context,
    name: Name,
    installation: Installation = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Remove a subscription.

    \b
    gnomon notify remove ops
    """
    address = remote.api_url(settings_of(ctx), api)
    remote.call(address, lambda client: of(client, "delete_subscription", installation)(name))
    output.done(f"{name} is removed", {"removed": name}, as_json=as_json)
