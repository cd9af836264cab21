"""Queries, requests and answers about dead letters, as types that check and describe them."""

from typing import Annotated
from uuid import UUID

import msgspec

from gnomon.api.tasks.schemas import DeadLetterFilter, TaskView
from gnomon.api.tasks.views import task_view
from gnomon.model.outcomes import fingerprint
from gnomon.model.tasks.task import Task
from gnomon.store.ports.work.dead_letters import DeadGroup
from gnomon.store.ports.work.tasks import TaskFilter
from gnomon.usecases.checks.request_fields import (
    DEFAULT_LIMIT,
    Limit,
    Moment,
    ResolutionNote,
    Strict,
    TaskType,
)

FingerprintText = Annotated[
    str,
    msgspec.Meta(
        pattern="^[0-7][0-9a-f]{15}$",
        max_length=16,
        description="16 hexadecimal digits, as groups of dead letters have them",
    ),
]


class DeadLetterQuery(DeadLetterFilter):
    """The parameters of a list of dead letters."""

    fingerprint: FingerprintText | None = None
    resolved: bool = False
    limit: Limit = DEFAULT_LIMIT
    cursor: str | None = None

    def chosen(self) -> TaskFilter:
        return msgspec.structs.replace(super().chosen(), fingerprint=read_text(self.fingerprint))


class GroupQuery(Strict):
    """The parameters of a list of groups."""

    task_type: TaskType | None = None
    fingerprint: FingerprintText | None = None
    limit: Limit = DEFAULT_LIMIT
    cursor: str | None = None


class ResolveDeadLetter(Strict):
    """A note about why a dead letter is resolved."""

    note: ResolutionNote | None = None


class DeadLetterView(TaskView):
    """A dead letter; once it is resolved, when it was, by whom, and their note."""

    fingerprint: str | None
    resolved_at: Moment | None
    resolved_by: str | None
    note: str | None


class DeadLetterPage(msgspec.Struct):
    """A page of dead letters: newest first, or the last resolved first."""

    dead_letters: list[DeadLetterView]
    next_cursor: str | None


class DeadGroupView(msgspec.Struct, kw_only=True):
    """Unresolved dead letters of one task type and one error. `count_capped`: there are more."""

    fingerprint: str
    task_type: str
    error: str  # without numbers, ids and other details
    count: int
    count_capped: bool
    first_seen: Moment
    last_seen: Moment
    example: UUID  # the one that died last
    hours: list[int]  # deaths in the last 24, the oldest first, among those that were counted


class DeadGroupPage(msgspec.Struct, kw_only=True):
    """A page of groups, the one with the newest death first. `ungrouped`: dead letters whose error
    has not been looked at yet."""

    groups: list[DeadGroupView]
    next_cursor: str | None
    groups_capped: bool
    ungrouped: int
    ungrouped_capped: bool


def read_text(text: str | None) -> int | None:
    """Raises InvalidTask, with the place."""
    return None if text is None else fingerprint.read(text)


def dead_letter_view(task: Task) -> DeadLetterView:
    view, resolved = task_view(task), task.resolved
    return DeadLetterView(
        **{name: getattr(view, name) for name in view.__struct_fields__},
        fingerprint=None if task.fingerprint is None else fingerprint.written(task.fingerprint),
        resolved_at=None if resolved is None else resolved.at,
        resolved_by=None if resolved is None else resolved.by,
        note=None if resolved is None else resolved.note,
    )


def group_view(group: DeadGroup) -> DeadGroupView:
    return DeadGroupView(
        fingerprint=fingerprint.written(group.fingerprint),
        task_type=group.task_type,
        error=group.error,
        count=group.count.count,
        count_capped=group.count.capped,
        first_seen=group.first_seen,
        last_seen=group.last_seen,
        example=group.example,
        hours=list(group.hours),
    )
