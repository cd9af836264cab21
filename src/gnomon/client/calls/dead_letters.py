"""Dead letters, and groups of them."""

from datetime import datetime
from typing import TypeAlias

import msgspec

from gnomon.client.call import Call, Listing, segment
from gnomon.client.calls.tasks import ChangedTask, Id
from gnomon.client.types.dead_letters import DeadGroupInfo, DeadLetterInfo
from gnomon.client.types.tasks import SubmittedTask, TaskInfo
from gnomon.model.tasks.priority import Priority

ResolvedDeadLetter: TypeAlias = DeadLetterInfo | SubmittedTask

_DEAD = "/dead-letters"


def list_dead_letters(
    *,
    task_type: str | None = None,
    priority: Priority | str | None = None,
    tag: str | None = None,
    queue: str | None = None,
    cron_job_id: Id | None = None,
    batch_id: Id | None = None,
    due_after: datetime | str | None = None,
    due_before: datetime | str | None = None,
    fingerprint: str | None = None,
    resolved: bool = False,
    limit: int | None = None,
    cursor: str | None = None,
) -> Listing[DeadLetterInfo]:
    """Lists the dead letters that are not resolved, newest first; or those that are, the last
    resolved first."""
    query = {
        "task_type": task_type,
        "priority": priority,
        "tag": tag,
        "queue": queue,
        "cron_job_id": cron_job_id,
        "batch_id": batch_id,
        "due_after": due_after,
        "due_before": due_before,
        "fingerprint": fingerprint,
        "resolved": "true" if resolved else None,
    }
    return Listing(
        path=_DEAD,
        member="dead_letters",
        item=DeadLetterInfo,
        query=query,
        limit=limit,
        cursor=cursor,
    )


def list_dead_letter_groups(
    *,
    task_type: str | None = None,
    fingerprint: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Listing[DeadGroupInfo]:
    """Lists groups of unresolved dead letters by task type and error, newest death first."""
    return Listing(
        path=f"{_DEAD}/groups",
        member="groups",
        item=DeadGroupInfo,
        query={"task_type": task_type, "fingerprint": fingerprint},
        limit=limit,
        cursor=cursor,
    )


def get_dead_letter(task_id: Id) -> Call[DeadLetterInfo]:
    """Reads a dead letter, resolved or not."""
    return Call(method="GET", path=_dead(task_id), answer=DeadLetterInfo)


def retry_dead_letter(task_id: Id, *, idempotency_key: str | None = None) -> Call[ChangedTask]:
    """Runs a dead letter again, with a new retry budget."""
    return Call(
        method="POST",
        path=f"{_dead(task_id)}/retry",
        answer=TaskInfo,
        receipt=SubmittedTask,
        keyed=True,
        key=idempotency_key,
    )


def archive_dead_letter(
    task_id: Id, *, note: str | None = None, idempotency_key: str | None = None
) -> Call[ResolvedDeadLetter]:
    """Archives a dead letter that was dealt with."""
    return _resolving(f"{_dead(task_id)}/archive", note, idempotency_key)


def discard_dead_letter(
    task_id: Id, *, note: str | None = None, idempotency_key: str | None = None
) -> Call[ResolvedDeadLetter]:
    """Archives a dead letter that is not worth dealing with."""
    return _resolving(f"{_dead(task_id)}/discard", note, idempotency_key)


def _resolving(path: str, note: str | None, key: str | None) -> Call[ResolvedDeadLetter]:
    return Call(
        method="POST",
        path=path,
        body=msgspec.UNSET if note is None else {"note": note},
        answer=DeadLetterInfo,
        receipt=SubmittedTask,
        keyed=True,
        key=key,
    )


def _dead(task_id: Id) -> str:
    return f"{_DEAD}/{segment(task_id)}"
