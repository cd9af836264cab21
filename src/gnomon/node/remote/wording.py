"""From deliveries to messages, and from messages to outcomes. Pure."""

from datetime import datetime

import msgspec

from gnomon.model.errors import InvalidTask
from gnomon.model.outcomes.outcome import SUCCESS, Outcome, OutcomeKind
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.retry import LONGEST_RETRY_AFTER, LONGEST_WAIT
from gnomon.model.tasks.task import DeliveryMode
from gnomon.model.text import storable
from gnomon.pipe.envelope import Delivery
from gnomon.pipe.http.messages import DeliveredTask, Poll, WorkerReport
from gnomon.pipe.http.session import RemoteExecution
from gnomon.sdk.executing.context import MAX_PROGRESS_CHARACTERS, stored_result
from gnomon.sdk.executing.failure import MAX_ERROR, bounded

_NEVER_AGAIN = "asked to be called again, which at_most_once never is"
_NULL = msgspec.Raw(b"null")


def delivered_task(delivery: Delivery, now: float) -> DeliveredTask:
    """A delivery as its worker gets it, at `now`."""
    target, origin = delivery.target, delivery.origin
    assert isinstance(target, PythonTarget), "a session handles nothing else"
    # By position: names take as long as all the rest.
    return DeliveredTask(
        delivery.key.id, delivery.fence, delivery.key.tenant_id, delivery.task_type,
        target.function, delivery.attempt, delivery.retries_left,
        _NULL if delivery.payload is None else msgspec.Raw(delivery.payload),
        delivery.timeout_seconds, max(0.0, delivery.start_by - now), delivery.asks,
        delivery.mode.value, delivery.lane.name, delivery.queue, delivery.idempotency_key,
        delivery.correlation_id, delivery.execute_at, delivery.recurring, delivery.losses > 0,
        None if origin is None else origin.traceparent, delivery.workflow_node,
    )  # fmt: skip


def check_poll(poll: Poll) -> None:
    """Raises InvalidTask where a report lacks what its outcome needs."""
    for place, report in enumerate(poll.reports):
        seconds = report.retry_after_seconds
        pointer = f"/reports/{place}/retry_after_seconds"
        if report.outcome == "snoozed" and seconds is None:
            raise InvalidTask("is needed where the outcome is snoozed", pointer)
        longest = LONGEST_WAIT if report.outcome == "snoozed" else LONGEST_RETRY_AFTER
        if seconds is not None and seconds > longest:
            raise InvalidTask(f"must be at most {longest:g}", pointer)
        for name in ("started_at", "finished_at"):
            moment: datetime | None = getattr(report, name)
            if moment is not None and moment.tzinfo is None:
                raise InvalidTask(
                    "must have a zone, as in 2026-01-31T09:00:00Z", f"/reports/{place}/{name}"
                )


def outcome_of(report: WorkerReport, execution: RemoteExecution) -> Outcome | None:
    """What a worker says of an execution; None: it was not started."""
    error = None if report.error is None else storable(report.error[:MAX_ERROR])
    traceback = None if report.traceback is None else bounded(storable(report.traceback))
    match report.outcome:
        case "released":
            return None
        case "succeeded":
            none = report.result is msgspec.UNSET or bytes(report.result) == b"null"
            if none and not report.spawns:
                return SUCCESS
            return Outcome(
                OutcomeKind.SUCCEEDED,
                result=None if none else stored_result(report.result),
                spawns=_spawns(report),
            )
        case "failed":
            return Outcome(
                OutcomeKind.FAILED,
                error=error or "it failed, and its worker does not say why",
                retryable=report.retryable,
                retry_after=report.retry_after_seconds,
                overrides_policy=report.retry_after_seconds is not None,
                traceback=traceback,
            )
        case "timed_out":
            seconds = execution.delivery.timeout_seconds
            return Outcome(
                OutcomeKind.TIMED_OUT,
                error=error or f"did not end within {seconds:g} s",
                traceback=traceback,
            )
        case "cancelled":
            preempted = execution.stop == "preempted"
            kind = OutcomeKind.PREEMPTED if preempted else OutcomeKind.CANCELLED
            return Outcome(kind, error=error or execution.stop or "cancelled by its worker")
        case "snoozed":
            once = execution.delivery.mode is DeliveryMode.AT_MOST_ONCE
            return Outcome(
                OutcomeKind.SNOOZED,
                error=_NEVER_AGAIN if once else None,
                retry_after=report.retry_after_seconds,
            )


def _spawns(report: WorkerReport) -> str | None:
    return msgspec.json.encode(report.spawns).decode() if report.spawns else None


def times_of(report: WorkerReport, execution: RemoteExecution, now: float) -> tuple[float, float]:
    """When it began and ended, by our own clock: that of a worker may be wrong, but it knows how
    long it took."""
    earliest = min(execution.started_at, now)
    began, ended = report.started_at, report.finished_at
    if began is None or ended is None:
        return earliest, now
    finished = ended.timestamp()
    if not earliest <= finished <= now:
        finished = now
    started = finished - (ended - began).total_seconds()
    return min(max(earliest, started), finished), finished


def progress_text(message: str | None) -> str | None:
    return None if message is None else storable(message[:MAX_PROGRESS_CHARACTERS])
