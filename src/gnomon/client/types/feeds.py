"""Feeds of outcomes."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from gnomon.client.types import Spec
from gnomon.client.types.tasks import CountInfo

Outcome: TypeAlias = Literal["completed", "dead_lettered", "cancelled", "expired"]


class FeedSpec(Spec, kw_only=True):
    """Where outcomes go, and which."""

    url: str
    task_types: Sequence[str] | None = None
    outcomes: Sequence[Outcome] | UnsetType = UNSET


class FeedInfo(msgspec.Struct, kw_only=True):
    """A feed, what it has published, and what waits."""

    name: str
    url: str
    task_types: list[str] | None
    outcomes: list[str]
    published: int
    published_at: datetime | None  # the last time
    backlog: CountInfo
    waiting_since: datetime | None  # the first outcome that is not published
    failing_since: datetime | None
    last_error: str | None
    gap_since: datetime | None  # too much waits: outcomes since then are not told
    created_at: datetime
    updated_at: datetime
