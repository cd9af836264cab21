"""`gnomon authentication`: whether requests need a key or a token, for all processes at once."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from gnomon.cli.shared import database, output
from gnomon.cli.shared.options import AsJson, Yes, settings_of

if TYPE_CHECKING:
    from gnomon.store.postgres.database import Database

_OFF = "Let whoever reaches the API on its machine do everything, and webhooks call any address?"


class OnOff(StrEnum):
    """The states of authentication."""

    ON = "on"
    OFF = "off"


def authentication(
    ctx: typer.Context,
    wanted: Annotated[
        OnOff | None, typer.Argument(metavar="[on|off]", help="Left out: show the state.")
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Show, or set, whether requests need an API key or a token. Works on the database.

    Nodes guard the addresses that webhooks reach while it is on, and follow within a second. An API
    process must be restarted to follow; until then it refuses to serve.

    \b
    gnomon authentication
    gnomon authentication on
    gnomon authentication off --yes
    """
    settings = settings_of(ctx)
    if wanted is OnOff.OFF and not yes:
        output.confirm(_OFF)
    on = database.with_database(settings, lambda opened: _settled(opened, wanted))
    if as_json:
        output.document({"authentication": on})
    else:
        typer.echo(f"authentication is {'on' if on else 'off'}")


async def _settled(opened: "Database", wanted: OnOff | None) -> bool:
    from gnomon.store.postgres.identity.installation import PostgresInstallation

    installation = PostgresInstallation(opened)
    if wanted is not None:
        await installation.set_authentication(on=wanted is OnOff.ON)
    return await installation.authentication()
