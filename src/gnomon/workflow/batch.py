"""A batch: tasks that are put in while it is open, and callbacks that start when they have ended.

`progress_of` and `status` are the whole of its rules; gnomon.pass_batches carries them out.
"""

from datetime import datetime
from enum import IntEnum, StrEnum
from uuid import UUID

import msgspec

MOST_MEMBERS = 1_000_000  # of a batch
MOST_OPEN = 10_000  # batches of a tenant
DEFAULT_DEADLINE = 24 * 3600.0  # seconds in which a batch must be closed
LONGEST_DEADLINE = 30 * 24 * 3600.0
ON_SUCCESS, ON_COMPLETE = "on_success", "on_complete"


class BatchState(IntEnum):
    """The state of a batch as it is stored."""

    OPEN = 0
    CLOSED = 1
    CANCELLED = 2
    EXPIRED = 3  # it was not closed in time


class BatchStatus(StrEnum):
    """The status of a batch as the API shows it."""

    OPEN = "OPEN"
    RUNNING = "RUNNING"  # closed, and members have not ended
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"  # all have ended, not all with success
    CANCELLING = "CANCELLING"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"


class MemberCounts(msgspec.Struct, frozen=True):
    """What became of the members."""

    total: int = 0
    succeeded: int = 0
    dead: int = 0  # letters: they may be tried again
    lost: int = 0  # failed for good: expired, or a dead letter that was resolved
    cancelled: int = 0  # or deleted

    @property
    def failed(self) -> int:
        return self.dead + self.lost

    @property
    def pending(self) -> int:
        return self.total - self.succeeded - self.failed - self.cancelled

    @property
    def has_succeeded(self) -> bool:
        return self.succeeded == self.total

    @property
    def can_succeed(self) -> bool:
        return self.lost == 0 and self.cancelled == 0


class BatchOfTasks(msgspec.Struct, frozen=True, kw_only=True):
    """A batch as it stands."""

    batch_id: UUID
    tenant_id: str
    name: str | None
    state: BatchState
    progress: MemberCounts
    on_success: UUID | None  # tasks
    on_complete: UUID | None
    reason: str | None  # why it was cancelled, or has expired
    deadline: datetime
    created_at: datetime
    created_by: str | None
    closed_at: datetime | None
    completed_at: datetime | None
    finished_at: datetime | None

    @property
    def status(self) -> BatchStatus:
        pending = self.progress.pending > 0
        if self.state is BatchState.CLOSED:
            if pending:
                return BatchStatus.RUNNING
            done = self.progress.has_succeeded
            return BatchStatus.SUCCEEDED if done else BatchStatus.FAILED
        if self.state is BatchState.CANCELLED:
            return BatchStatus.CANCELLING if pending else BatchStatus.CANCELLED
        return BatchStatus[self.state.name]


def why_waits(batch: BatchOfTasks, callback: str) -> str:
    """What the callback of a batch waits for."""
    who = f"It is {callback} of batch {batch.batch_id}"
    progress, named = batch.progress, f"`gnomon batches close {batch.batch_id}`"
    if batch.state is BatchState.OPEN:
        put = f"{progress.total} tasks were put in so far" if progress.total else "it is empty"
        return f"{who}, which is open: it waits until that is closed, with {named} ({put})."
    if batch.state is not BatchState.CLOSED:
        return f"{who}, which is {batch.status}: it is about to be cancelled."
    if progress.pending:
        return f"{who}, and waits for {progress.pending} of its {progress.total} tasks to end."
    if callback == ON_SUCCESS and progress.dead:
        return (
            f"{who}, of which {progress.dead} tasks are dead letters: retry them, and it starts "
            "when they have succeeded."
        )
    return f"{who}, and its turn has come: it starts in a moment."
