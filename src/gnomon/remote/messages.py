"""How the messages of the worker protocol become deliveries, and reports become messages.

Next: `gateway_calls.py` sends them.
"""

from datetime import UTC, datetime

import msgspec

from gnomon.model.outcomes.outcome import Loss, Outcome, OutcomeKind
from gnomon.model.targets.target import PythonTarget
from gnomon.model.tasks.origin import Origin, is_correlation_id
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import DeliveryMode, TaskKey
from gnomon.pipe.envelope import Delivery, Report
from gnomon.pipe.http.messages import (
    DeliveredTask,
    SessionOpened,
    TaskClaim,
    WorkerOutcome,
    WorkerReport,
)

_NO_POLICY = RetryPolicy()
_MODES = {mode.value: mode for mode in DeliveryMode}
_LANES = {lane.name: lane for lane in Lane}
_OUTCOMES: dict[OutcomeKind, WorkerOutcome] = {
    OutcomeKind.SUCCEEDED: "succeeded",
    OutcomeKind.FAILED: "failed",
    OutcomeKind.TIMED_OUT: "timed_out",
    OutcomeKind.SNOOZED: "snoozed",
    OutcomeKind.CANCELLED: "cancelled",
    OutcomeKind.PREEMPTED: "cancelled",
}


def delivery_of(message: DeliveredTask, session: SessionOpened, now: float) -> Delivery:
    """The delivery, received at `now`, as the slots of a node know it. The policy of its retries
    stays with the gateway, which decides what follows from its outcome."""
    said = message.correlation_id
    is_own = said.replace("-", "") == message.task_id.hex
    given = None if is_own or not is_correlation_id(said) else said
    known = given is not None or message.traceparent is not None
    payload = bytes(message.payload)
    mode = _MODES.get(message.delivery, DeliveryMode.AT_MOST_ONCE)  # of one that is new: with care
    # A delivery asks by its mode; else it is one that was lost before.
    suspect = message.suspect or (message.asks and mode is DeliveryMode.AT_LEAST_ONCE)
    # The first by position: names take as long as all the rest.
    return Delivery(
        TaskKey(session.tenant_id, message.task_id), message.fence, session.session_id,
        message.attempt, message.retries_left, 1 if suspect else 0,
        PythonTarget(message.function or message.task_type),
        None if payload == b"null" else payload, None, message.timeout_seconds, _NO_POLICY,
        message.task_type, _LANES.get(message.priority, Lane.MEDIUM),
        message.scheduled_for.timestamp(), now + message.start_within_seconds,
        message.idempotency_key, False, mode,
        queue=message.queue,
        recurring=message.recurring,
        origin=Origin(given, message.traceparent) if known else None,
        workflow_node=message.workflow_node,
    )  # fmt: skip


def report_of(report: Report) -> WorkerReport:
    """The report as the gateway is told it."""
    delivery, outcome = report.delivery, report.outcome
    if outcome is None:
        return WorkerReport(delivery.key.id, delivery.fence, "released")
    return WorkerReport(
        delivery.key.id, delivery.fence, _outcome(outcome), _moment(report.started_at),
        _moment(report.finished_at),
        msgspec.UNSET if outcome.result is None else msgspec.Raw(outcome.result.encode()),
        outcome.error, outcome.traceback, outcome.retryable, outcome.retry_after,
        () if outcome.spawns is None else _parts(outcome.spawns),
    )  # fmt: skip


def _parts(spawns: str) -> tuple[msgspec.Raw, ...]:
    return msgspec.json.decode(spawns, type=tuple[msgspec.Raw, ...])


def claim_of(delivery: Delivery) -> TaskClaim:
    return TaskClaim(delivery.key.id, delivery.fence)


def _outcome(outcome: Outcome) -> WorkerOutcome:
    """Its name in the protocol. A suspect that was lost with a child process of this worker has
    failed, unless the worker itself has ended the child."""
    if outcome.kind is OutcomeKind.LOST:
        return "cancelled" if outcome.loss is Loss.NODE else "failed"
    return _OUTCOMES[outcome.kind]


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
