"""Whether a run may start while another has not ended."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from gnomon.cron.job import Overlap
from gnomon.cron.overlap import Active, Decision, decide
from gnomon.model.tasks.lifecycle import State

NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize("policy", Overlap)
@pytest.mark.parametrize("made_up", [False, True])
def test_where_nobody_is_active_every_run_starts(policy: Overlap, made_up: bool) -> None:
    assert decide(policy, active=False, made_up=made_up) is Decision.START


@pytest.mark.parametrize(
    ("policy", "decision", "of_one_made_up"),
    [
        (Overlap.SKIP, Decision.SKIP, Decision.QUEUE),
        (Overlap.QUEUE, Decision.QUEUE, Decision.QUEUE),
        (Overlap.ALLOW, Decision.START, Decision.START),
        (Overlap.CANCEL_RUNNING, Decision.REPLACE, Decision.QUEUE),
    ],
)
def test_each_policy_has_its_way(
    policy: Overlap, decision: Decision, of_one_made_up: Decision
) -> None:
    assert decide(policy, active=True, made_up=False) is decision
    assert decide(policy, active=True, made_up=True) is of_one_made_up


@pytest.mark.parametrize(
    ("state", "attempt", "due_in", "holds"),
    [
        (State.RUNNING, 1, -1, True),
        (State.WAITING, 1, 60, True),  # waits for its retry
        (State.PAUSED, 1, -1, True),
        (State.WAITING, 0, -1, True),  # about to start
        (State.WAITING, 0, 0, True),  # at its very time
        (State.WAITING, 0, 1, False),  # a reservation
        (State.PAUSED, 0, -1, False),
        (State.BLOCKED, 0, -1, False),
        (State.DEAD, 3, -1, False),
    ],
)
def test_active_is_what_has_started_and_not_ended(
    state: State, attempt: int, due_in: int, holds: bool
) -> None:
    active = Active(UUID(int=1), state, attempt, NOW + timedelta(seconds=due_in))
    assert active.holds(NOW) is holds
