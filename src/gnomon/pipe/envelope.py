"""Deliveries and reports: the messages between dispatcher and worker."""

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

import msgspec

from gnomon.model.outcomes.outcome import Outcome
from gnomon.model.outcomes.verdict import asks_before_start
from gnomon.model.targets.target import Target
from gnomon.model.tasks.flow import UNKNOWN_FLOW
from gnomon.model.tasks.origin import Origin, correlation_id_of
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import DeliveryMode, TaskKey

# Moments are seconds since the epoch by the store's clock: made, compared and stored for every one,
# they would cost several times as much as datetimes.
NEVER = float("-inf")  # a `start_by` that has always passed


FencedKey = tuple[TaskKey, int]  # a task, and the fence of one of its claims

# Where the claim left the row of a task, for the store alone: a hint, since rows move.
Address = tuple[int, int]


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """A claimed task on its way to a slot: all that an execution needs."""

    key: TaskKey
    fence: int
    incarnation: UUID
    attempt: int
    retries_left: int
    losses: int
    target: Target
    payload: bytes | None
    payload_size: int | None  # set where the payload is kept apart and must be fetched
    timeout_seconds: float
    retry_policy: RetryPolicy
    task_type: str
    lane: Lane
    scheduled_for: float
    start_by: float  # later than this it must be released: others may take it over
    idempotency_key: str | None
    expired: bool  # claimed after its `expires_at`: must not be started
    mode: DeliveryMode = DeliveryMode.AT_LEAST_ONCE
    preemptible: bool = False  # may be ended for the sake of a CRITICAL task
    queue: str | None = None
    limit_keys: str | None = None  # JSON: what keyed limiters found in the payload
    flow: int = UNKNOWN_FLOW
    recurring: bool = False  # a cron job's run
    origin: Origin | None = None  # of the request that submitted it
    workflow_node: str | None = None  # of the run that it is in
    address: Address | None = None
    not_before: float = 0.0  # it may not start earlier: later than the claim where that was early

    @property
    def execute_at(self) -> datetime:
        return datetime.fromtimestamp(self.scheduled_for, UTC)

    @property
    def correlation_id(self) -> str:
        """The one that was given; else the task's id."""
        return correlation_id_of(self.origin, self.key.id)

    @property
    def asks(self) -> bool:
        """Whether the store must consent before the call is made."""
        return asks_before_start(self.mode, self.losses)


class Report(msgspec.Struct, frozen=True, gc=False):
    """The end of a delivery. No outcome: it was not started."""

    delivery: Delivery
    outcome: Outcome | None = None
    started_at: float | None = None
    finished_at: float | None = None

    @property
    def seconds(self) -> float | None:
        """How long it ran; None: it was not started."""
        return seconds_of([self])[0]


def seconds_of(reports: Sequence[Report]) -> list[float | None]:
    """How long each ran; None: it was not started."""
    return [
        None
        if each.outcome is None
        or (began := each.started_at) is None
        or (ended := each.finished_at) is None
        else max(0.0, ended - began)
        for each in reports
    ]
