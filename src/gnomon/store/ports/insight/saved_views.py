"""Values of the store of saved views: named filters of the list of tasks, shared by a tenant."""

from datetime import datetime

import msgspec

MOST_SAVED_VIEWS = 100  # of a tenant


class SavedView(msgspec.Struct, frozen=True, kw_only=True):
    """A filter and the columns that are shown with it."""

    name: str
    filter: bytes  # JSON, as in a request
    columns: tuple[str, ...]
    created_by: str | None
    created_at: datetime
