"""Values of dead letters: groups by their errors, and pages of those that are resolved."""

from datetime import UTC, datetime
from uuid import UUID

import msgspec

from gnomon.model.tasks.task import Task
from gnomon.store.ports.insight.stats import CappedCount
from gnomon.store.ports.work.tasks import HIGHEST_ID

MOST_GROUPS = 10_000  # that are looked at for a page
MOST_MEMBERS = 1_000  # of a group that are counted for a list
HOURS = 24  # of which the deaths of a group are told
_LAST_MOMENT = datetime.max.replace(tzinfo=UTC)


class GroupCursor(msgspec.Struct, frozen=True):
    """The last group of a page: when it had its last death."""

    last_seen: datetime
    fingerprint: int


class DeadGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Unresolved dead letters of one task type that died of the same error."""

    fingerprint: int
    task_type: str
    error: str  # normalised
    count: CappedCount
    first_seen: datetime
    last_seen: datetime
    example: UUID  # the one that died last
    # Deaths in each of the last hours, the oldest first, among those that were counted.
    hours: tuple[int, ...]


class LastFailure(msgspec.Struct, frozen=True):
    """Where the last execution of a task has failed, and what its target has answered."""

    response_status: int | None
    response_body: str | None
    traceback: str | None


class GroupPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of groups, the one with the newest death first."""

    groups: list[DeadGroup]
    next_cursor: GroupCursor | None
    capped: bool  # there are more groups than were looked at
    ungrouped: CappedCount  # dead letters whose fingerprint is not known yet


class ResolvedCursor(msgspec.Struct, frozen=True):
    """The last dead letter of a page: when it was resolved."""

    resolved_at: datetime
    task_id: UUID


class ResolvedPage(msgspec.Struct, frozen=True):
    """A page of resolved dead letters, the last resolved first."""

    tasks: list[Task]
    next_cursor: ResolvedCursor | None


BEFORE_ALL_RESOLVED = ResolvedCursor(_LAST_MOMENT, HIGHEST_ID)
BEFORE_ALL_GROUPS = GroupCursor(_LAST_MOMENT, (1 << 63) - 1)
