"""Values of the task store: what the API gives it and gets from it."""

from datetime import datetime
from uuid import UUID

import msgspec

from gnomon.model.errors import GnomonError
from gnomon.model.fleet.tenant import Pace
from gnomon.model.insight.transition import Transition
from gnomon.model.tasks.execution import Execution
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.task import Submission, Task

MOST_CHECK_STEPS = 200_000_000  # of the payloads that are stored together


class Once(msgspec.Struct, frozen=True):
    """A request that must take effect once: its key, and a fingerprint of its body."""

    key: str
    fingerprint: bytes


class NewTask(msgspec.Struct, frozen=True):
    """A submission and, where it carries an idempotency key, the answer to be replayed."""

    submission: Submission
    once: Once | None = None
    answer: bytes = b"null"  # JSON, less the payload (the repeated request brings it again)


class Receipt(msgspec.Struct, frozen=True):
    """The answer to one submission: stored, replayed, or refused (`conflict`, `refused`)."""

    task_id: UUID
    replay: bytes | None = None
    conflict: bool = False
    refused: GnomonError | None = None  # by a quota, or by its batch
    pace: Pace | None = None  # of submissions, where they are bounded


class TaskFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of a list. None means all."""

    status: Status | None = None
    task_type: str | None = None
    priority: Lane | None = None
    tag: str | None = None
    queue: str | None = None
    cron_job_id: UUID | None = None
    batch_id: UUID | None = None
    due_after: datetime | None = None
    due_before: datetime | None = None
    ids: tuple[UUID, UUID] | None = None  # the first and the last
    fingerprint: int | None = None  # of dead letters


class Page(msgspec.Struct, frozen=True):
    """A page of tasks, newest first. It does bounded work, so it may be short without being the
    last."""

    tasks: list[Task]
    next_cursor: UUID | None


class NewerPage(msgspec.Struct, frozen=True):
    """The tasks that come just after a cursor, newest first, and where even newer ones begin; None:
    there are none."""

    tasks: list[Task]
    newer_cursor: UUID | None


class TaskLabels(msgspec.Struct, frozen=True, kw_only=True):
    """Task types, tags and queues of the newest tasks, the commonest first."""

    task_types: list[str]
    tags: list[str]
    queues: list[str]


class ListedExecutions(msgspec.Struct, frozen=True):
    """A page of the executions of a task, oldest first."""

    executions: list[Execution]
    next_cursor: int | None  # the fence of the last of them


class ListedTransitions(msgspec.Struct, frozen=True):
    """A page of the transitions of a task, oldest first."""

    transitions: list[Transition]
    next_cursor: int | None  # the number of the last of them


class QuotaUse(msgspec.Struct, frozen=True, kw_only=True):
    """How much of its quotas a tenant uses; null where there is no quota: nothing was counted."""

    scheduled_tasks: int | None = None
    submissions_per_second: int | None = None
    cron_jobs: int | None = None
    stored_bytes: int | None = None


LOWEST_ID, HIGHEST_ID = UUID(int=0), UUID(int=(1 << 128) - 1)
