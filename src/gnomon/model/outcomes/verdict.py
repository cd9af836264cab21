"""Verdicts: what follows from an outcome. Pure: facts in, decision out."""

from enum import IntEnum
from typing import Protocol

import msgspec

from gnomon.model.outcomes import quarantine
from gnomon.model.outcomes.outcome import Outcome, OutcomeKind
from gnomon.model.targets.target import Target
from gnomon.model.tasks.retry import RetryPolicy, retry_delay
from gnomon.model.tasks.task import DeliveryMode


class VerdictKind(IntEnum):
    """Stored nowhere; the settling statement branches on the number."""

    COMPLETE = 0
    RETRY = 1
    DEAD_LETTER = 2
    RELEASE = 3  # not started: there was no execution
    EXPIRE = 4  # its time to start had passed before it could


class Verdict(msgspec.Struct, frozen=True):
    """A decision, ready to be written."""

    kind: VerdictKind
    delay: float = 0.0  # seconds until the next execution
    spends: bool = False  # a retry of the budget
    losses: int = 0  # the task's losses from now on: see `model.quarantine`


COMPLETE = Verdict(VerdictKind.COMPLETE)
EXPIRE = Verdict(VerdictKind.EXPIRE)


class Standing(Protocol):
    """The facts about a task that a verdict depends on: its budget and its losses."""

    @property
    def retries_left(self) -> int: ...
    @property
    def retry_policy(self) -> RetryPolicy: ...
    @property
    def losses(self) -> int: ...
    @property
    def mode(self) -> DeliveryMode: ...
    @property
    def target(self) -> Target: ...


def asks_before_start(mode: DeliveryMode, losses: int) -> bool:
    """Whether the row is marked as begun before the call is made. Where the mode promises
    something about that moment; and after a loss, so that a task that had not even begun when
    its next node died is not taken for the killer."""
    return mode is not DeliveryMode.AT_LEAST_ONCE or losses > 0


def decide(outcome: Outcome, standing: Standing, chance: float) -> Verdict:
    """The verdict on an execution that ended, whichever way."""
    if outcome.kind is OutcomeKind.SUCCEEDED:
        return COMPLETE
    if standing.mode is DeliveryMode.AT_MOST_ONCE:
        return Verdict(VerdictKind.DEAD_LETTER, losses=standing.losses)  # it has had its one call
    match outcome.kind:
        case OutcomeKind.SNOOZED:
            return Verdict(VerdictKind.RETRY, delay=outcome.retry_after or 0.0)
        case OutcomeKind.LOST:
            return _after_loss(outcome, standing)
        case OutcomeKind.PREEMPTED:
            return Verdict(VerdictKind.RETRY, losses=standing.losses)
        case OutcomeKind.CANCELLED:
            # The settling statement turns every verdict but COMPLETE on a task whose cancelling
            # was asked for into CANCELLED; this is what a stray cancellation comes to.
            return Verdict(VerdictKind.RETRY, losses=standing.losses)
        case OutcomeKind.FAILED | OutcomeKind.TIMED_OUT:
            return _after_failure(outcome, standing, chance)


def release(standing: Standing) -> Verdict:
    """Release a task that was claimed and never started."""
    return Verdict(VerdictKind.RELEASE, losses=standing.losses)


def _after_failure(outcome: Outcome, standing: Standing, chance: float) -> Verdict:
    if standing.retries_left <= 0 or not outcome.retryable:
        return Verdict(VerdictKind.DEAD_LETTER)
    if outcome.overrides_policy and outcome.retry_after is not None:
        return Verdict(VerdictKind.RETRY, delay=outcome.retry_after, spends=True)
    # The budget is renewed by a re-drive, so the backoff starts over with it.
    policy = standing.retry_policy
    retry = max(1, policy.max_retries - standing.retries_left + 1)
    delay = retry_delay(policy, retry, chance, outcome.retry_after)
    return Verdict(VerdictKind.RETRY, delay=delay, spends=True)


def _after_loss(outcome: Outcome, standing: Standing) -> Verdict:
    if not quarantine.can_kill(standing.target):
        return Verdict(VerdictKind.RETRY)
    losses = quarantine.after(standing.losses, outcome.loss, standing.mode)
    if losses >= quarantine.LAST:
        return Verdict(VerdictKind.DEAD_LETTER, losses=losses)
    delay = quarantine.pause(losses, outcome.loss)
    return Verdict(VerdictKind.RETRY, delay=delay, losses=losses)
