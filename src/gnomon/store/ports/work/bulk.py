"""Values of bulk operations: one action on all tasks that match a filter."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from uuid import UUID

import msgspec

from gnomon.model.errors import InvalidTask
from gnomon.model.targets.allow_list import EVERYTHING, AllowList
from gnomon.model.tasks.lifecycle import State, Status
from gnomon.store.ports.insight.stats import CappedCount
from gnomon.store.ports.work.tasks import TaskFilter

MOST_OPEN = 20  # operations of a tenant under way
MOST_KEPT = 1_000  # of a tenant
MOST_EXAMINED = 100_000  # tasks, to count those that match at the start
CHUNK_EXAMINED = 10_000  # tasks, in one transaction


class BulkAction(StrEnum):
    """What is done to each of the tasks."""

    RETRY = "retry"
    CANCEL = "cancel"
    RESCHEDULE = "reschedule"
    DELETE = "delete"
    ARCHIVE = "archive"
    DISCARD = "discard"


class BulkStatus(StrEnum):
    """How far an operation is. DRY_RUN is never stored."""

    DRY_RUN = "DRY_RUN"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    STOPPED = "STOPPED"


class BulkFilter(TaskFilter, frozen=True, kw_only=True):
    """The filter of an operation: as of a list, and by the text of the last error."""

    error: str | None = None


class BulkScope(StrEnum):
    """Where the tasks of an operation are looked for; the value is the statement that does."""

    DEAD = "bulk_dead"
    LIVE = "bulk_live"
    ALL = "bulk_all"


class BulkWork(msgspec.Struct, frozen=True, kw_only=True):
    """What an operation does, to which tasks, and the limits of who asked for it."""

    action: BulkAction
    chosen: BulkFilter
    interrupt: bool = False  # also cancel running tasks
    execute_at: datetime | None = None  # of rescheduled tasks
    note: str | None = None  # of a resolution
    task_types: frozenset[str] | None = None  # that the requester may change; None: all
    allow: AllowList = EVERYTHING  # and the targets

    @property
    def scope(self) -> BulkScope:
        status = self.chosen.status
        match self.action:
            case BulkAction.ARCHIVE | BulkAction.DISCARD:
                return BulkScope.DEAD
            case BulkAction.RETRY:
                return BulkScope.LIVE if status is Status.FAILED else BulkScope.DEAD
            case BulkAction.DELETE:
                return BulkScope.LIVE if status in _UNENDED else BulkScope.ALL
            case _:
                return BulkScope.LIVE

    @property
    def by_state(self) -> bool:
        """Whether it is only for tasks that are in some state: what gets into it after the start is
        none of its business."""
        return self.chosen.status is not None or self.scope is BulkScope.DEAD

    def check(self) -> None:
        """Raises InvalidTask, with the place, where the action can never apply."""
        allowed = _STATUSES[self.action]
        if self.chosen.status is not None and self.chosen.status not in allowed:
            names = ", ".join(status for status in Status if status in allowed)
            detail = f"is {self.chosen.status}, but {self.action} is for tasks that are: {names}"
            raise InvalidTask(detail, "/filter/status")
        if (self.execute_at is None) == (self.action is BulkAction.RESCHEDULE):
            detail = "is needed to reschedule, and with no other action"
            raise InvalidTask(detail, "/execute_at")
        if self.interrupt and self.action is not BulkAction.CANCEL:
            raise InvalidTask("is for cancel only", "/interrupt")
        if self.note is not None and self.action not in RESOLVING:
            raise InvalidTask("is for archive and discard only", "/note")
        if self.chosen.fingerprint is not None and self.scope is not BulkScope.DEAD:
            detail = "is of dead letters: it is for retry, archive and discard only"
            raise InvalidTask(detail, "/filter/fingerprint")


RESOLVING = frozenset({BulkAction.ARCHIVE, BulkAction.DISCARD})
_UNENDED = frozenset(status for status in Status if not status.has_ended)
_STATUSES = {
    BulkAction.RETRY: frozenset({Status.DEAD_LETTERED, Status.FAILED}),
    BulkAction.ARCHIVE: frozenset({Status.DEAD_LETTERED}),
    BulkAction.DISCARD: frozenset({Status.DEAD_LETTERED}),
    BulkAction.CANCEL: _UNENDED,
    BulkAction.RESCHEDULE: _UNENDED - {Status.RUNNING},
    BulkAction.DELETE: frozenset(Status),
}
LIVE_STATES = (State.WAITING, State.RUNNING, State.PAUSED, State.BLOCKED)


class BulkOperation(msgspec.Struct, frozen=True, kw_only=True):
    """An operation, and how far it is."""

    tenant_id: str
    operation_id: UUID
    work: BulkWork
    created_by: str | None
    started_at: datetime
    ended_at: datetime | None
    status: BulkStatus
    position: UUID
    total: CappedCount
    changed: int = 0
    refused: int = 0
    reasons: Mapping[str, int] = {}


class BulkKey(msgspec.Struct, frozen=True):
    """Which operation of which tenant."""

    tenant_id: str
    operation_id: UUID


class BulkMatches(msgspec.Struct, frozen=True):
    """Tasks that match, newest first, and where to go on; None: there are no more."""

    ids: list[UUID]
    stopped_at: UUID | None


class BulkPage(msgspec.Struct, frozen=True):
    """A page of operations, newest first."""

    operations: list[BulkOperation]
    next_cursor: UUID | None
