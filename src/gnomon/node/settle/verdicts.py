"""From a report to its settlement. Pure, but for chance."""

from gnomon.clock import Chance
from gnomon.model.outcomes.outcome import SUCCESS, OutcomeKind
from gnomon.model.outcomes.verdict import (
    COMPLETE,
    EXPIRE,
    Verdict,
    asks_before_start,
    decide,
    release,
)
from gnomon.pipe.envelope import Address, Delivery, Report
from gnomon.store.ports.dispatch import Settlement

_SUCCEEDED = OutcomeKind.SUCCEEDED


def settlement_of(report: Report, worker: str, chance: Chance) -> Settlement:
    """The settlement of an execution that was made by `worker`, or of a delivery that was
    not started."""
    delivery, outcome = report.delivery, report.outcome
    key, fence, incarnation = delivery.key, delivery.fence, delivery.incarnation
    if outcome is None:
        return Settlement(key, fence, incarnation, _unstarted(delivery), worker=worker)
    if outcome is SUCCESS and not delivery.expired:  # as of most handlers: it says nothing more
        return Settlement(
            key, fence, incarnation, COMPLETE, _SUCCEEDED, report.started_at, report.finished_at,
            worker, task_type=delivery.task_type, address=_address(delivery),
        )  # fmt: skip
    internal = False
    if delivery.expired:
        verdict = EXPIRE
    elif outcome.kind is _SUCCEEDED:  # as `decide` says; for most tasks, so without it
        verdict = COMPLETE
    else:
        verdict = decide(outcome, delivery, chance())
        internal = outcome.is_own_failure
    return Settlement(
        key,
        fence,
        incarnation,
        verdict,
        outcome.kind,
        report.started_at,
        report.finished_at,
        worker,
        outcome.error,
        outcome.response_status,
        outcome.response_body,
        outcome.result,
        False,
        outcome.traceback,
        delivery.task_type,
        internal,
        outcome.spawns if verdict is COMPLETE else None,
        _address(delivery),
    )


def _address(delivery: Delivery) -> Address | None:
    """Where its row is still; what has begun has moved."""
    return None if asks_before_start(delivery.mode, delivery.losses) else delivery.address


def _unstarted(delivery: Delivery) -> Verdict:
    return EXPIRE if delivery.expired else release(delivery)
