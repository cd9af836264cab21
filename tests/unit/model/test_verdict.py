"""What follows from an outcome."""

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gnomon.model.outcomes.outcome import Loss, Outcome, OutcomeKind
from gnomon.model.outcomes.quarantine import ALONE_FROM, LAST, STEP
from gnomon.model.outcomes.verdict import (
    COMPLETE,
    Verdict,
    VerdictKind,
    asks_before_start,
    decide,
    release,
)
from gnomon.model.targets.target import HttpTarget, PythonTarget, Target
from gnomon.model.tasks.retry import LONGEST_RETRY_AFTER, Backoff, RetryPolicy
from gnomon.model.tasks.task import DeliveryMode


class Standing(msgspec.Struct, frozen=True):
    """A task, as far as a verdict looks at it."""

    retries_left: int
    retry_policy: RetryPolicy
    losses: int = 0
    mode: DeliveryMode = DeliveryMode.AT_LEAST_ONCE
    target: Target = PythonTarget("f")


FIXED = RetryPolicy(max_retries=3, backoff=Backoff.FIXED, base_seconds=2.0, jitter=False)
LOST = Outcome(OutcomeKind.LOST)
FAILURES = [OutcomeKind.FAILED, OutcomeKind.TIMED_OUT]

policies = st.builds(
    RetryPolicy,
    max_retries=st.integers(0, 1000),
    backoff=st.sampled_from(Backoff),
    base_seconds=st.floats(0, 100),
    max_seconds=st.floats(0, 1000),
    jitter=st.booleans(),
)
standings = st.builds(
    Standing,
    retries_left=st.integers(0, 1000),
    retry_policy=policies,
    losses=st.integers(0, 10),
    mode=st.sampled_from(DeliveryMode),
)
chances = st.floats(0, 1, exclude_max=True)


def test_success_completes() -> None:
    assert decide(Outcome(OutcomeKind.SUCCEEDED), Standing(0, FIXED, losses=4), 0.5) is COMPLETE


@pytest.mark.parametrize("kind", FAILURES)
def test_a_failure_spends_a_retry_while_there_are_any(kind: OutcomeKind) -> None:
    verdict = decide(Outcome(kind), Standing(1, FIXED), 0.5)
    assert (verdict.kind, verdict.delay, verdict.spends) == (VerdictKind.RETRY, 2.0, True)
    verdict = decide(Outcome(kind), Standing(0, FIXED), 0.5)
    assert (verdict.kind, verdict.spends) == (VerdictKind.DEAD_LETTER, False)


def test_what_no_retry_can_help_dies_at_once() -> None:
    outcome = Outcome(OutcomeKind.FAILED, retryable=False)
    assert decide(outcome, Standing(3, FIXED), 0.5).kind is VerdictKind.DEAD_LETTER


def test_the_wait_grows_with_the_retries_that_were_spent() -> None:
    policy = RetryPolicy(max_retries=5, base_seconds=1.0, max_seconds=10.0, jitter=False)
    failed = Outcome(OutcomeKind.FAILED)
    delays = [decide(failed, Standing(left, policy), 0.0).delay for left in (5, 4, 3, 2, 1)]
    assert delays == [1.0, 2.0, 4.0, 8.0, 10.0]


def test_more_retries_left_than_the_policy_has_wait_like_the_first() -> None:
    """A task that was changed to fewer retries, or a re-drive."""
    assert decide(Outcome(OutcomeKind.FAILED), Standing(9, FIXED), 0.0).delay == 2.0


def test_the_receivers_wish_is_honoured_up_to_a_day() -> None:
    def delay(wish: float) -> float:
        return decide(Outcome(OutcomeKind.FAILED, retry_after=wish), Standing(1, FIXED), 0.0).delay

    assert (delay(0.5), delay(90.0), delay(1e9)) == (2.0, 90.0, LONGEST_RETRY_AFTER)


def test_a_snooze_spends_nothing_and_waits_as_asked() -> None:
    verdict = decide(Outcome(OutcomeKind.SNOOZED, retry_after=42.0), Standing(0, FIXED, 2), 0.5)
    assert (verdict.kind, verdict.delay, verdict.spends) == (VerdictKind.RETRY, 42.0, False)
    assert verdict.losses == 0
    assert decide(Outcome(OutcomeKind.SNOOZED), Standing(0, FIXED), 0.5).delay == 0.0


def test_a_stray_cancellation_is_tried_again_and_changes_nothing() -> None:
    verdict = decide(Outcome(OutcomeKind.CANCELLED), Standing(0, FIXED, losses=3), 0.5)
    assert (verdict.kind, verdict.spends, verdict.losses) == (VerdictKind.RETRY, False, 3)


def test_what_was_preempted_is_tried_again_at_once_and_changes_nothing() -> None:
    verdict = decide(Outcome(OutcomeKind.PREEMPTED), Standing(0, FIXED, losses=3), 0.5)
    assert verdict == Verdict(VerdictKind.RETRY, delay=0.0, spends=False, losses=3)


def test_what_is_given_back_keeps_its_losses() -> None:
    verdict = release(Standing(1, FIXED, losses=3))
    assert (verdict.kind, verdict.losses, verdict.spends) == (VerdictKind.RELEASE, 3, False)


@pytest.mark.parametrize("loss", Loss)
def test_losses_lead_to_the_end_and_spend_no_retry(loss: Loss) -> None:
    losses, tries = ALONE_FROM, 0
    while True:
        tries += 1
        outcome = Outcome(OutcomeKind.LOST, loss=loss)
        verdict = decide(outcome, Standing(0, FIXED, losses), 0.5)
        if verdict.kind is VerdictKind.DEAD_LETTER or loss is Loss.IN_GROUP:
            break
        losses = verdict.losses
        assert (verdict.kind, verdict.spends) == (VerdictKind.RETRY, False)
    assert tries == {Loss.ALONE: 3, Loss.NODE: LAST - ALONE_FROM, Loss.IN_GROUP: 1}[loss]


@given(st.integers(0, STEP - 1))
def test_one_that_dies_alone_is_given_time_for_what_may_pass(nodes: int) -> None:
    """A machine is short of memory for a while, and these processes are the first to be killed."""
    delays, losses = [], nodes
    while True:
        verdict = decide(
            Outcome(OutcomeKind.LOST, loss=Loss.ALONE), Standing(0, FIXED, losses), 0.5
        )
        if verdict.kind is VerdictKind.DEAD_LETTER:
            break
        delays.append(verdict.delay)
        losses = verdict.losses
    assert delays == [5.0, 30.0]


@pytest.mark.parametrize("loss", [Loss.NODE, Loss.IN_GROUP])
@pytest.mark.parametrize("losses", [0, STEP, ALONE_FROM, LAST - 2])
def test_one_that_died_with_others_is_tried_again_at_once(loss: Loss, losses: int) -> None:
    verdict = decide(Outcome(OutcomeKind.LOST, loss=loss), Standing(0, FIXED, losses), 0.5)
    assert (verdict.kind, verdict.delay) == (VerdictKind.RETRY, 0.0)


@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize("losses", [0, 1, LAST])
def test_a_webhook_is_no_suspect_however_many_nodes_die(loss: Loss, losses: int) -> None:
    webhook = Standing(0, FIXED, losses, target=HttpTarget("http://a.example/"))
    verdict = decide(Outcome(OutcomeKind.LOST, loss=loss), webhook, 0.5)
    assert verdict == Verdict(VerdictKind.RETRY)


@given(standings, chances, st.sampled_from(FAILURES), st.booleans())
def test_a_try_that_ended_clears_the_losses(
    standing: Standing, chance: float, kind: OutcomeKind, retryable: bool
) -> None:
    """It did not take its node with it, so it is no suspect."""
    assume(standing.mode is not DeliveryMode.AT_MOST_ONCE)
    assert decide(Outcome(kind, retryable=retryable), standing, chance).losses == 0


@given(standings, chances, st.sampled_from(OutcomeKind), st.none() | st.floats(0, 1e9))
def test_every_outcome_has_a_verdict_that_can_be_written(
    standing: Standing, chance: float, kind: OutcomeKind, wish: float | None
) -> None:
    verdict = decide(Outcome(kind, retry_after=wish), standing, chance)
    assert verdict.delay >= 0
    assert verdict.losses <= max(standing.losses + 1, ALONE_FROM)
    assert not verdict.spends or standing.retries_left > 0
    assert (verdict.kind is VerdictKind.COMPLETE) == (kind is OutcomeKind.SUCCEEDED)


@given(policies, chances)
def test_a_task_that_always_fails_is_tried_once_more_than_it_has_retries(
    policy: RetryPolicy, chance: float
) -> None:
    left, tried = min(policy.max_retries, 50), 0
    while True:
        tried += 1
        verdict = decide(Outcome(OutcomeKind.FAILED), Standing(left, policy), chance)
        if verdict.kind is VerdictKind.DEAD_LETTER:
            break
        left -= verdict.spends
    assert tried == min(policy.max_retries, 50) + 1


@given(standings, chances, st.sampled_from(OutcomeKind))
def test_at_most_once_has_one_call_whatever_came_of_it(
    standing: Standing, chance: float, kind: OutcomeKind
) -> None:
    once = msgspec.structs.replace(standing, mode=DeliveryMode.AT_MOST_ONCE)
    verdict = decide(Outcome(kind), once, chance)
    assert verdict.kind in (VerdictKind.COMPLETE, VerdictKind.DEAD_LETTER)


@pytest.mark.parametrize("mode", DeliveryMode)
@pytest.mark.parametrize("losses", [0, 1, STEP])
def test_who_asks_before_it_starts(mode: DeliveryMode, losses: int) -> None:
    asks = asks_before_start(mode, losses)
    assert asks == (mode is not DeliveryMode.AT_LEAST_ONCE or losses > 0)


def test_verdicts_have_the_numbers_that_the_settling_statement_names() -> None:
    assert {kind.name: int(kind) for kind in VerdictKind} == {
        "COMPLETE": 0,
        "RETRY": 1,
        "DEAD_LETTER": 2,
        "RELEASE": 3,
        "EXPIRE": 4,
    }
