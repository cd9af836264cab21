"""Saved views: named filters of tasks."""

from collections.abc import Mapping, Sequence
from typing import Any

from gnomon.client.call import Call, segment
from gnomon.client.types.saved_views import SavedViewInfo

_VIEWS = "/saved-views"


def list_saved_views() -> Call[list[SavedViewInfo]]:
    """Lists saved views, by name."""
    return Call(method="GET", path=_VIEWS, answer=list[SavedViewInfo], member="saved_views")


def put_saved_view(
    name: str,
    *,
    filter: Mapping[str, Any] | None = None,  # noqa: A002 - its name in the API
    columns: Sequence[str] | None = None,
) -> Call[SavedViewInfo]:
    """Saves a view, in the place of one of its name: see `list_tasks` for the filter's members."""
    given = {"filter": filter, "columns": columns}
    body = {member: value for member, value in given.items() if value is not None}
    return Call(method="PUT", path=f"{_VIEWS}/{segment(name)}", body=body, answer=SavedViewInfo)


def delete_saved_view(name: str) -> Call[None]:
    """Removes a saved view."""
    return Call(method="DELETE", path=f"{_VIEWS}/{segment(name)}")
