"""Saved views: named filters of tasks."""

from datetime import datetime
from typing import Any

import msgspec


class SavedViewInfo(msgspec.Struct, kw_only=True):
    """A filter of tasks under a name, and who saved it."""

    name: str
    filter: dict[str, Any]
    columns: list[str]
    created_by: str | None
    created_at: datetime
