"""Converts rows of PostgreSQL into values of the model, and back."""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NoReturn, TypeVar

import asyncpg
import msgspec
import structlog

from gnomon.model.ids import created_at
from gnomon.model.insight.transition import Transition
from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.targets.target import HttpTarget, RequestTarget, Target
from gnomon.model.tasks.execution import Execution
from gnomon.model.tasks.lifecycle import State, status_of
from gnomon.model.tasks.origin import Origin
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import (
    INLINE_PAYLOAD_BYTES,
    DeliveryMode,
    KeepPayload,
    ReportedProgress,
    Resolution,
    Resolved,
    Task,
)

log = structlog.get_logger("gnomon.store")

_T = TypeVar("_T")

# What decoding a row raises: plain SQL stores what it likes, JSON of any depth and times of any
# year among it.
UNREADABLE = (ValueError, OverflowError, RecursionError)


class Codes(dict[int, _T]):
    """Values by the numbers that a column keeps for them. `[]` raises ValueError for any other
    number; `get` is for those who must go on with something else."""

    def __init__(self, column: str, values: Mapping[int, _T]) -> None:
        super().__init__(values)
        self._column = column

    def __missing__(self, code: int) -> NoReturn:
        known = ", ".join(map(str, sorted(self)))
        raise ValueError(f"{self._column} must be one of {known}; got {code}")


DELIVERY_CODES = {
    DeliveryMode.AT_LEAST_ONCE: 0,
    DeliveryMode.AT_MOST_ONCE: 1,
    DeliveryMode.EXACTLY_ONCE: 2,
}
KEEP_CODES = {KeepPayload.ALWAYS: 0, KeepPayload.FAILED: 1, KeepPayload.NEVER: 2}
LANES = Codes("lane", {int(lane): lane for lane in Lane})
MODES = Codes("delivery", {code: mode for mode, code in DELIVERY_CODES.items()})
KEEPS = Codes("keep_payload", {code: keep for keep, code in KEEP_CODES.items()})
# Stand-ins for what cannot be read: the last in line, never started twice, and called by nobody.
ANY_LANE = Lane.LOW
SAFE_MODE = DeliveryMode.AT_MOST_ONCE
NO_TARGET = HttpTarget(url="")
_DEFAULT_POLICY = RetryPolicy()
_RUNNING = "running"

_target = msgspec.json.Decoder(RequestTarget)  # tenants have no others
_policy = msgspec.json.Decoder(RetryPolicy)
_tags = msgspec.json.Decoder(tuple[str, ...])
_origin = msgspec.json.Decoder(Origin)


def lane_of(code: int) -> Lane:
    return LANES.get(code, ANY_LANE)


def readable(
    rows: Iterable[asyncpg.Record], value_of: Callable[[asyncpg.Record], _T], what: str
) -> list[_T]:
    """The values of a list. A row that cannot be read must not hide the others."""
    values = []
    for row in rows:
        try:
            values.append(value_of(row))
        except UNREADABLE as error:
            log.warning(f"a {what} cannot be read, and is left out", row=_name(row), why=str(error))
    return values


def is_early(row: asyncpg.Record) -> bool:
    """Whether it was claimed ahead of its time, which has not come: it waits until then. Whatever
    else runs was claimed after it was due."""
    state, due_at, started_at = row["state"], row["due_at"], row["started_at"]
    return bool(state == State.RUNNING and started_at == due_at and due_at > row["now"])


def task_of(row: asyncpg.Record) -> Task:
    """A row of get_task or of a list. Dead letters are there to be looked at because something in
    them cannot be read, so that is shown as a stand-in."""
    state, due_at, attempt = State(row["state"]), row["due_at"], row["attempt"]
    if early := is_early(row):
        state, attempt = State.WAITING, attempt - 1
    return Task(
        task_id=row["id"],
        tenant_id=row["tenant_id"],
        name=row["name"],
        task_type=row["task_type"],
        status=status_of(state, due_at, attempt, row["now"]),
        priority=lane_of(row["lane"]),
        target=_or_stand_in(_target.decode, row["target"], NO_TARGET),
        payload=_bytes_of(row["payload"]),
        tags=() if row["tags"] is None else _or_stand_in(_tags.decode, row["tags"], ()),
        execute_at=row["execute_at"],
        expires_at=row["expires_at"],
        created_at=created_at(row["id"]),
        created_by=row["created_by"],
        started_at=None if early else row["started_at"],
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
        delivery=MODES.get(row["delivery"], SAFE_MODE),
        retry_policy=policy_of(row["retry_policy"]),
        timeout_seconds=exact(row["timeout_seconds"]),
        idempotency_key=row["idempotency_key"],
        preemptible=row["preemptible"],
        queue=row["queue"],
        keep_payload=KEEPS.get(row["keep_payload"], KeepPayload.ALWAYS),
        sla_seconds=row["sla_seconds"],
        warn_after_seconds=row["warn_after_seconds"],
        payload_kept=not row["payload_removed"],
        origin=None if row["origin"] is None else origin_of(row["origin"]),
        workflow_run_id=row["workflow_run_id"],
        workflow_node=row["workflow_node"],
        batch_id=row["batch_id"],
        progress=_progress_of(row),
        fingerprint=row.get("fingerprint"),
        resolved=_resolved_of(row),
    )


def _progress_of(row: asyncpg.Record) -> ReportedProgress | None:
    at = row.get("progress_at")  # lists are read without it
    if at is None:
        return None
    return ReportedProgress(row["progress_fraction"], row["progress_message"], at)


def _resolved_of(row: asyncpg.Record) -> Resolved | None:
    at = row.get("resolved_at")
    return None if at is None else Resolved(at, row["resolved_by"], row["note"])


def execution_of(row: asyncpg.Record) -> Execution:
    """The execution in a row of gnomon.all_executions."""
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
        traceback=row["traceback"],
    )


def transition_of(row: asyncpg.Record) -> Transition:
    """A row of gnomon.transition. Raises ValueError for a state that there is not."""
    before, after = row["from_state"], row["to_state"]
    return Transition(
        number=row["number"],
        at=row["at"],
        from_state=None if before is None else State(before),
        to_state=None if after is None else State(after),
        attempt=row["attempt"],
        fence=row["fence"],
        node=row["node"],
    )


def outcome_code(outcome: str) -> int:
    """The number of an execution's outcome; -1 for one that is running."""
    return -1 if outcome == _RUNNING else OutcomeKind[outcome.upper()]


def policy_of(text: str | None) -> RetryPolicy:
    """The default one where it cannot be read: that must keep nobody from ending a task."""
    if text is None:
        return _DEFAULT_POLICY
    return _or_stand_in(_policy.decode, text, _DEFAULT_POLICY)


def origin_of(text: str) -> Origin | None:
    """None where it cannot be read: a task runs without it."""
    return _or_stand_in(_origin.decode, text, None)


def stored_origin(origin: Origin) -> str:
    return msgspec.json.encode(origin).decode()


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


def _or_stand_in(decode: Callable[[str], _T], text: str, stand_in: _T) -> _T:
    try:
        return decode(text)
    except UNREADABLE:
        return stand_in


def _name(row: asyncpg.Record) -> str:
    """Where to find a row: by the first of its columns that tells it apart."""
    return str(row.get("id") or row.get("fire_at") or row.get("fence"))


def _bytes_of(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
