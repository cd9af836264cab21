"""Saved views: named filters of the list of tasks, which the people of a tenant share."""

from collections.abc import Sequence

from gnomon.access.principal import Principal
from gnomon.model.errors import InvalidTask
from gnomon.model.saved_view_errors import SavedViewNotFound
from gnomon.store.ports.insight.saved_views import SavedView
from gnomon.store.postgres.saved_views.saved_view_store import PostgresSavedViews
from gnomon.usecases.checks.text_check import check_addressable, check_line

MOST_NAME_CHARACTERS = 100


def check_name(name: str) -> None:
    """Raises InvalidTask, with the place."""
    if not name.strip() or len(name) > MOST_NAME_CHARACTERS:
        raise InvalidTask(f"must have 1 to {MOST_NAME_CHARACTERS} characters", "/name")
    if "/" in name:
        raise InvalidTask("must not contain a /", "/name")
    check_line(name, "/name")


async def put(
    store: PostgresSavedViews, by: Principal, name: str, chosen: bytes, columns: Sequence[str]
) -> tuple[SavedView, bool]:
    """Saves a view, in the place of one of its name; gives also whether it is new. Raises
    InvalidTask, TooManySavedViews."""
    check_name(name)
    check_addressable(name, "/name")
    return await store.put(by.tenant_id, name, chosen, columns, by.name)


async def delete(store: PostgresSavedViews, by: Principal, name: str) -> None:
    """Raises SavedViewNotFound."""
    try:
        check_name(name)
    except InvalidTask as error:
        raise SavedViewNotFound(name) from error
    await store.delete(by.tenant_id, name)
