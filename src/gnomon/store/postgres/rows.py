"""Rows of PostgreSQL as the model's values, and back."""

import struct
from collections.abc import Sequence

import asyncpg
import msgspec

from gnomon.model.ids import created_at
from gnomon.model.lane import Lane
from gnomon.model.lifecycle import State, status_of
from gnomon.model.outcome import OutcomeKind
from gnomon.model.retry import RetryPolicy
from gnomon.model.target import Target
from gnomon.model.task import (
    INLINE_PAYLOAD_BYTES,
    DeliveryMode,
    Execution,
    Resolution,
    Task,
)

DELIVERY_CODES = {
    DeliveryMode.AT_LEAST_ONCE: 0,
    DeliveryMode.AT_MOST_ONCE: 1,
    DeliveryMode.EXACTLY_ONCE: 2,
}
_DELIVERIES = {code: delivery for delivery, code in DELIVERY_CODES.items()}
_DEFAULT_POLICY = RetryPolicy()
_RUNNING = "running"

_target = msgspec.json.Decoder(Target)
_policy = msgspec.json.Decoder(RetryPolicy)
_tags = msgspec.json.Decoder(tuple[str, ...])


def task_of(row: asyncpg.Record) -> Task:
    """A row of get_task or of a list."""
    state, due_at, attempt = State(row["state"]), row["due_at"], row["attempt"]
    return Task(
        task_id=row["id"],
        tenant_id=row["tenant_id"],
        name=row["name"],
        task_type=row["task_type"],
        status=status_of(state, due_at, attempt, row["now"]),
        priority=Lane(row["lane"]),
        target=_target.decode(row["target"]),
        payload=_bytes_of(row["payload"]),
        tags=() if row["tags"] is None else _tags.decode(row["tags"]),
        execute_at=row["execute_at"],
        expires_at=row["expires_at"],
        created_at=created_at(row["id"]),
        created_by=row["created_by"],
        started_at=row["started_at"],
        # A dead letter's due time is when it died: nothing is due about it any more.
        finished_at=due_at if state is State.DEAD else row["finished_at"],
        attempt=attempt,
        next_retry_at=due_at if state is State.WAITING and attempt > 0 else None,
        last_error=row["last_error"],
        result=_bytes_of(row["result"]),
        resolution=None if row["resolution"] is None else Resolution(row["resolution"]),
        cancel_requested=row["cancel_requested"],
        cron_job_id=row["cron_job_id"],
        retry_of=row["retry_of"],
        delivery=_DELIVERIES[row["delivery"]],
        retry_policy=policy_of(row["retry_policy"]),
        timeout_seconds=exact(row["timeout_seconds"]),
        idempotency_key=row["idempotency_key"],
        preemptible=row["preemptible"],
        queue=row["queue"],
    )


def execution_of(row: asyncpg.Record) -> Execution:
    """A row of gnomon.try."""
    outcome = row["outcome"]
    return Execution(
        attempt=row["attempt"],
        outcome=_RUNNING if outcome is None else OutcomeKind(outcome).label,
        worker=row["worker"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        error=row["error"],
        response_status=row["response_status"],
        response_body=row["response_body"],
        result=_bytes_of(row["result"]),
    )


def policy_of(text: str | None) -> RetryPolicy:
    return _DEFAULT_POLICY if text is None else _policy.decode(text)


def stored_target(target: Target) -> str:
    return msgspec.json.encode(target).decode()


def stored_policy(policy: RetryPolicy) -> str | None:
    return None if policy == _DEFAULT_POLICY else msgspec.json.encode(policy).decode()


def stored_tags(tags: Sequence[str]) -> str | None:
    return msgspec.json.encode(tags).decode() if tags else None


def stored_payload(payload: bytes | None) -> str | None:
    return None if payload is None else payload.decode()


def size_apart(payload: bytes | None) -> int | None:
    """The size of a payload that is kept apart; None for one that stays with its task."""
    size = 0 if payload is None else len(payload)
    return size if size > INLINE_PAYLOAD_BYTES else None


def exact(seconds: float) -> float:
    """The number that was meant by a four-byte float: the shortest that is stored as this one."""
    if seconds.is_integer():
        return seconds
    for digits in (6, 7, 8):
        shorter = float(f"{seconds:.{digits}g}")
        if struct.unpack("f", struct.pack("f", shorter))[0] == seconds:
            return shorter
    return seconds


def _bytes_of(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
