"""Commands that are for a tenant's things, or with an option for those of the installation."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from gnomon.client.client import DocumentClient

Installation = Annotated[
    bool, typer.Option("--installation", help="Of the installation, for its operators.")
]


def of(client: "DocumentClient", operation: str, installation: bool) -> Callable[..., Any]:
    """The operation on things of the tenant, or the one on those of the installation."""
    verb, _, noun = operation.partition("_")
    method: Callable[..., Any] = getattr(
        client, f"{verb}_installation_{noun}" if installation else operation
    )
    return method
