"""What a tenant is charged: in the end for the work that was done, and for nothing else."""

from itertools import pairwise

import pytest

from gnomon.fairness import LaneRound
from gnomon.fairness.virtual_time import TenantShare
from gnomon.model.errors import BrokenInvariant
from gnomon.store.ports.dispatch import Entry


def account(weight: float = 1.0) -> TenantShare[Entry]:
    made: TenantShare[Entry] = TenantShare("acme", 0, LaneRound())
    made.weight = weight
    return made


@pytest.mark.parametrize("weight", [1.0, 4.0])
def test_what_runs_on_is_charged_as_it_goes_and_not_again_when_it_ends(weight: float) -> None:
    acme = account(weight)
    acme.hold(3, 0)
    acme.runs([2.0, 2.0, 2.0])
    assert acme.tag * weight == pytest.approx(6.0)
    acme.runs([10.0, 10.0, 10.0])
    assert acme.tag * weight == pytest.approx(30.0)
    for left in (2, 1, 0):
        acme.release([10.0], 0)
        assert acme.held == left
        assert acme.tag * weight == pytest.approx(30.0)


def test_a_wrong_guess_is_put_right_when_a_task_ends() -> None:
    acme = account()
    acme.hold(2, 0)
    acme.release([3.0], 0)
    assert acme.tag == pytest.approx(3.0 + 0.05)
    acme.release([None], 0)
    assert acme.tag == pytest.approx(3.0)


def test_a_guess_follows_what_tasks_take_and_never_more_than_a_second_is_charged_ahead() -> None:
    acme = account()
    charges = []
    for _ in range(100):
        acme.hold(1, 0)
        acme.release([5.0], 0)
        charges.append(acme.charge)
    assert all(before <= after for before, after in pairwise(charges))
    assert charges[-1] == 1.0
    assert acme.guess == pytest.approx(5.0, abs=0.01)
    for _ in range(200):
        acme.hold(1, 0)
        acme.release([0.0], 0)
    assert acme.charge == pytest.approx(1e-4), "nothing is free"


def test_slots_that_are_not_held_cannot_be_released() -> None:
    acme = account()
    acme.hold(1, 0)
    with pytest.raises(BrokenInvariant, match="2 tasks ended, and 1 were held"):
        acme.release([1.0, 1.0], 0)
