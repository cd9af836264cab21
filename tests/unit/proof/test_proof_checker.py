"""The checker of campaigns finds each kind of wrong, and does not take its innocent twin for it."""

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from proof.campaigns.checker import CANCELLED, DEAD, Kind
from proof.campaigns.expectations import Limits
from proof.campaigns.history import Call, Fault, Sighting
from tests.unit.proof.proof_records import (
    DUE,
    ID,
    MS,
    asked,
    call,
    changed,
    cut_off,
    effect,
    failed,
    fault,
    final,
    judged,
    wrongs,
)


def test_a_task_that_ran_once_is_right() -> None:
    judgement = judged(asked(), call(), final())
    assert judgement.wrong == {}
    assert (judgement.submitted, judgement.acknowledged, judgement.calls) == (1, 1, 1)
    assert judgement.delays == [(1, DUE, DUE + 0.1)]


def test_an_acknowledged_task_that_is_not_there_is_lost() -> None:
    assert wrongs(asked()) == {"lost": 1}
    assert wrongs(asked(acked_at=None, task_id=None)) == {}


def test_an_acknowledged_task_under_another_id_is_lost() -> None:
    assert wrongs(asked(), final(task_id="other"), call(run_id="other")) == {"lost": 1}
    unknown = asked(acked_at=None, task_id=None)
    assert wrongs(unknown, final(task_id="other"), call(run_id="other")) == {}


def test_a_number_is_stored_once() -> None:
    twice = [call(), final(), call(run_id="other", fence=2), final(task_id="other", fence=2)]
    assert wrongs(asked(), *twice)["unexpected"] == 1
    assert wrongs(asked(acked_at=None, task_id=None), *twice)["unexpected"] == 1


def test_a_task_is_in_one_table() -> None:
    assert wrongs(asked(), call(), final(), final(0)) == {"unexpected": 1}


def test_what_nobody_submitted_is_unexpected() -> None:
    for record in (call(), final(), effect()):
        assert wrongs(record) == {"unexpected": 1}


def test_a_call_of_a_task_that_is_not_there_is_unexpected() -> None:
    never_acknowledged = asked(acked_at=None, task_id=None)
    assert wrongs(never_acknowledged, call()) == {"unexpected": 1}
    assert wrongs(asked(), call(), final(), failed(run_id="ghost", fence=0))["unexpected"] == 1


def test_a_call_before_its_time_is_early() -> None:
    assert wrongs(asked(), call(DUE - MS), final()) == {"early": 1}
    assert wrongs(asked(), call(DUE), final()) == {}


def test_a_retry_may_not_be_early_either() -> None:
    calls = [call(DUE + 1, 3), failed(DUE - MS, 1)]
    assert wrongs(asked(fails=1), *calls, final(fence=3)) == {"early": 1}


def test_a_failed_try_leads_to_another_one() -> None:
    retried = [failed(DUE + 0.1, 1), failed(DUE + 0.5, 3), call(DUE + 1, 5)]
    judgement = judged(asked(fails=2), *retried, final(fence=5))
    assert judgement.wrong == {}
    assert judgement[Kind.START_EXPLAINED].count == 0


def test_a_second_start_without_a_fault_is_wrong() -> None:
    twice = [call(DUE + 0.1, 1), call(DUE + 3, 3), final(fence=3)]
    assert wrongs(asked(), *twice) == {"duplicate_starts_unexplained": 1}
    judgement = judged(asked(), *twice, fault(DUE + 0.2))
    assert judgement.wrong == {}
    assert judgement[Kind.START_EXPLAINED].count == 1


@pytest.mark.parametrize(
    "useless",
    [
        fault(DUE + 0.2, took_effect=False),
        fault(DUE + 0.2, victim="api-1"),
        fault(DUE + 0.2, victim="node-2"),
        fault(DUE + 10),
        fault(DUE - 10),
        fault(DUE - 50, kind="skew", healed_at=DUE + 50),
    ],
)
def test_a_fault_that_cannot_be_the_cause_explains_nothing(useless: Fault) -> None:
    twice = [call(DUE + 0.1, 1, node="node-1"), call(DUE + 3, 3, node="node-2"), final(fence=3)]
    assert wrongs(asked(), *twice, useless) == {"duplicate_starts_unexplained": 1}


@pytest.mark.parametrize(
    "cause",
    [
        fault(DUE + 0.2),
        fault(DUE + 0.2, "postgres_fast", "postgres"),
        fault(DUE - 3.5, "pause", healed_at=DUE - 1),
        fault(DUE - 50, "skew", healed_at=DUE + 1),
    ],
)
def test_a_fault_that_can_be_the_cause_explains(cause: Fault) -> None:
    twice = [call(DUE + 0.1, 1, node="node-1"), call(DUE + 3, 3, node="node-2"), final(fence=3)]
    assert wrongs(asked(), *twice, cause) == {}


def test_a_call_that_was_cut_off_is_no_failed_try() -> None:
    for first in (cut_off(), failed(hung_up=True)):
        history = [asked(), first, call(DUE + 3, 3), final(fence=3)]
        assert wrongs(*history)["duplicate_starts_unexplained"] == 1
        assert wrongs(*history, fault(DUE + 0.15)) == {}


def test_a_call_whose_time_was_up_is_a_failed_try() -> None:
    slow = failed(DUE + 0.1, 1, hung_up=True, ended_at=DUE + 5.1)
    assert wrongs(asked(), slow, call(DUE + 6, 3), final(fence=3)) == {}


ROW = {"mode": "exactly_once", "way": "effect"}


def timed_out(began: float, fence: int, seconds: float = 5.0) -> Call:
    return failed(began, fence, hung_up=True, ended_at=began + seconds)


def test_each_try_whose_time_was_up_leads_to_another_one() -> None:
    tries = [timed_out(DUE + 0.1, 1), timed_out(DUE + 5.4, 3, 4.95), call(DUE + 10.6, 5)]
    judgement = judged(asked(**ROW), *tries, effect(5), final(fence=5))
    assert judgement.wrong == {}
    assert judgement[Kind.START_EXPLAINED].count == 0


def test_a_try_that_was_ended_before_its_time_was_up_is_no_failed_one() -> None:
    """Where it was ended since its time had counted while it waited for its transaction, the
    product is wrong: no such wait is an excuse."""
    tries = [timed_out(DUE + 1.9, 1, 3.5), call(DUE + 5.6, 3), effect(3), final(fence=3)]
    assert wrongs(asked(**ROW), *tries) == {"duplicate_starts_unexplained": 1}
    longer = [timed_out(DUE + 0.1, 1), call(DUE + 5.6, 3), effect(3), final(fence=3)]
    assert wrongs(asked(timeout_seconds=10.0, **ROW), *longer) == {
        "duplicate_starts_unexplained": 1
    }


def test_a_try_whose_time_was_up_excuses_one_start_and_nothing_else() -> None:
    late = timed_out(DUE + 0.1, 1)
    again = [call(DUE + 5.4, 3), call(DUE + 5.8, 5), effect(5), final(fence=5)]
    assert wrongs(asked(**ROW), late, *again) == {"duplicate_starts_unexplained": 1}
    beside = [call(DUE + 3, 3), effect(3), final(fence=3)]
    assert wrongs(asked(**ROW), late, *beside) == {
        "duplicate_starts_unexplained": 1,
        "overlaps_unexplained": 1,
    }
    # Its rows were rolled back: what they and the end of the task say is of the next try.
    once = [call(DUE + 5.4, 3), final(fence=3)]
    assert wrongs(asked(**ROW), late, *once, effect(1)) == {"stale_fence_accepted": 1}
    assert wrongs(asked(**ROW), late, *once, effect(1), effect(3)) == {"duplicate_effects": 1}


def test_retries_end_with_the_budget() -> None:
    calls = [failed(DUE + 0.1, 1), failed(DUE + 0.5, 3), call(DUE + 1, 5), final(fence=5)]
    assert wrongs(asked(fails=2, max_retries=1), *calls) == {"duplicate_starts_unexplained": 1}


def test_a_failure_that_was_never_heard_of_costs_no_retry() -> None:
    calls = [failed(DUE + 0.1, 1), failed(DUE + 20, 3), call(DUE + 20.4, 5), final(fence=5)]
    assert wrongs(asked(fails=2, max_retries=1), *calls, fault(DUE + 0.15)) == {}


def test_a_failure_that_was_never_heard_of_before_another_loss_costs_no_retry_either() -> None:
    """The retry that it did not take is only seen at the end, after a call that was lost since."""
    calls = [
        failed(DUE + 0.1, 1, node="node-1"),
        cut_off(DUE + 20, 3, node="node-2"),
        failed(DUE + 40, 5, node="node-3"),
        call(DUE + 40.4, 7, node="node-3"),
        final(fence=7),
    ]
    first, second = fault(DUE + 0.15), fault(DUE + 20.1, victim="node-2")
    assert wrongs(asked(fails=2, max_retries=1), *calls, first, second) == {}
    # One loss explains one start.
    assert wrongs(asked(fails=2, max_retries=1), *calls, second) == {
        "duplicate_starts_unexplained": 1
    }
    later = fault(DUE + 21, victim="node-1")  # it had been heard of by then
    assert wrongs(asked(fails=2, max_retries=1), *calls, later, second) == {
        "duplicate_starts_unexplained": 1
    }


def test_one_claim_is_one_call_whatever_happens() -> None:
    twice = [cut_off(DUE + 0.1, 1), call(DUE + 3, 1), final()]
    assert wrongs(asked(), *twice, fault(DUE + 0.2)) == {"duplicate_starts_unexplained": 1}


TAKEN_OVER = [
    call(DUE + 2.5, 3, node="node-1"),
    cut_off(DUE + 3.7, 1, node="node-2"),
    final(fence=3),
]
STOPPED = fault(DUE, "pause", "node-2", healed_at=DUE + 3.699)


@pytest.mark.parametrize(
    "faults",
    [
        [],
        [STOPPED],
        [STOPPED, fault(DUE + 2.6)],
        [STOPPED, fault(DUE + 2.6, "postgres_fast", "postgres")],
    ],
    ids=["no-fault", "of-the-later", "and-of-the-earlier", "and-of-all"],
)
def test_no_fault_excuses_the_start_of_a_claim_that_was_taken_over(faults: list[Fault]) -> None:
    """Neither that its own node was stopped, nor what happened to the one that took it over: what
    is lost there is claimed again, under a higher fence."""
    judgement = judged(asked(), *TAKEN_OVER, *faults)
    assert wrongs(asked(), *TAKEN_OVER, *faults) == {"duplicate_starts_unexplained": 1}
    assert judgement[Kind.START_EXPLAINED].count == 0


def test_the_start_of_a_claim_that_was_taken_over_names_its_node_and_why_it_was_late() -> None:
    ((_, why),) = judged(asked(), *TAKEN_OVER, STOPPED)[Kind.START_UNEXPLAINED].first
    assert why == (
        "fence 1 began at 103.700 on node-2 after 3 at 102.500 on node-1, so its claim had been "
        "taken over; node-2: pause from 100.000 to 103.699"
    )
    ((_, why),) = judged(asked(), *TAKEN_OVER)[Kind.START_UNEXPLAINED].first
    assert why.endswith("taken over; node-2: no fault of it was near")


def test_such_a_start_is_wrong_where_another_call_was_due_as_well() -> None:
    """The first one failed, so that a second one is no surplus: but not this one."""
    calls = [failed(DUE + 2.5, 3), cut_off(DUE + 3.7, 1), call(DUE + 3.8, 5), final(fence=5)]
    assert wrongs(asked(fails=1), *calls, STOPPED)["duplicate_starts_unexplained"] == 1


def test_a_call_beside_one_that_took_it_over_is_not_explained() -> None:
    running = call(DUE + 2.5, 3, node="node-1", ended_at=DUE + 4)
    late = cut_off(DUE + 3.7, 1, node="node-2")
    lost = [STOPPED, fault(DUE + 2.6, "cut", "node-1")]
    assert wrongs(asked(), running, late, final(fence=3), *lost) == {
        "duplicate_starts_unexplained": 1,
        "overlaps_unexplained": 1,
    }


def test_a_repeated_start_names_both_nodes() -> None:
    twice = [call(DUE + 0.1, 1, node="node-1"), call(DUE + 3, 3, node="node-2"), final(fence=3)]
    ((_, why),) = judged(asked(), *twice, fault(DUE + 0.2))[Kind.START_EXPLAINED].first
    assert why.startswith("fence 3 began at 103.000 on node-2 after 1 at 100.100 on node-1: ")


def test_at_most_once_is_called_once_whatever_happens() -> None:
    once = asked(mode="at_most_once", max_retries=0)
    twice = [cut_off(DUE + 0.1, 1), call(DUE + 3, 3), final(fence=3)]
    lost = fault(DUE + 0.2)
    assert wrongs(once, *twice, lost) == {"duplicate_starts_unexplained": 1}
    assert wrongs(once, *twice, lost, changed("redrive", DUE + 2)) == {}


def test_calls_at_the_same_time_need_an_explanation() -> None:
    both = [call(DUE + 0.1, 1, ended_at=DUE + 4), call(DUE + 3, 3), final(fence=3)]
    assert wrongs(asked(), *both)["overlaps_unexplained"] == 1
    judgement = judged(asked(), *both, fault(DUE + 0.2, "pause", healed_at=DUE + 3.9))
    assert judgement.wrong == {}
    assert judgement[Kind.OVERLAP_EXPLAINED].count == 1


def test_a_call_ends_with_its_process_or_its_time() -> None:
    killed = [cut_off(DUE + 0.1, 1, node="node-1"), call(DUE + 3, 3), final(fence=3)]
    for lost in (fault(DUE + 0.2), fault(DUE + 0.2, "crash_point")):
        assert judged(asked(), *killed, lost)[Kind.OVERLAP_EXPLAINED].count == 0
    paused = fault(DUE + 0.2, "pause")
    for others in ([paused], [paused, fault(DUE - 1)]):
        assert judged(asked(), *killed, *others)[Kind.OVERLAP_EXPLAINED].count == 1
    later = [cut_off(DUE + 0.1, 1, node="node-1"), call(DUE + 5.2, 3), final(fence=3)]
    assert judged(asked(), *later, paused)[Kind.OVERLAP_EXPLAINED].count == 0


def test_completed_without_a_call_is_lost() -> None:
    assert wrongs(asked(), final()) == {"lost": 1}


def test_completed_without_a_success_is_lost() -> None:
    assert wrongs(asked(), failed(), final()) == {"lost": 1}
    assert wrongs(asked(), cut_off(), final()) == {"lost": 1}


def test_the_success_must_be_that_of_the_try_that_was_settled() -> None:
    calls = [call(DUE + 0.1, 1), cut_off(DUE + 3, 3)]
    killed = fault(DUE + 0.2)
    # The third is running when the word of the first, which is dead, is taken for it.
    assert wrongs(asked(), *calls, killed, final(fence=3)) == {"stale_fence_accepted": 1}
    assert wrongs(asked(), *calls, killed, final(fence=1)) == {"stale_fence_accepted": 1}
    heard = [call(DUE + 0.1, 1), call(DUE + 3, 3)]
    assert wrongs(asked(), *heard, killed, final(fence=3)) == {}


def test_a_fence_never_falls() -> None:
    dead = [failed(DUE + 0.1, 1), failed(DUE + 0.5, 3)]
    doomed = asked(fails=2, max_retries=1)
    assert wrongs(doomed, *dead, final(DEAD, fence=2)) == {"stale_fence_accepted": 1}
    assert wrongs(doomed, *dead, final(DEAD, fence=4)) == {}


@pytest.mark.parametrize("state", [0, 1, 2, 3])
def test_what_has_not_ended_is_stuck(state: int) -> None:
    assert wrongs(asked(), final(state)) == {"stuck": 1}
    assert wrongs(asked(acked_at=None, task_id=None), final(state)) == {"stuck": 1}


def test_a_state_that_nobody_asked_for_is_unexpected() -> None:
    assert wrongs(asked(), final(12)) == {"unexpected": 1}
    assert wrongs(asked(), final(CANCELLED)) == {"unexpected": 1}


def test_a_dead_letter_has_used_up_its_tries() -> None:
    doomed = asked(fails=2, max_retries=1)
    used_up = [failed(DUE + 0.1, 1), failed(DUE + 0.5, 3)]
    judgement = judged(doomed, *used_up, final(DEAD, 4))
    assert judgement.wrong == {}
    assert judgement[Kind.DEAD_EXPECTED].count == 1
    assert wrongs(doomed, used_up[0], final(DEAD, 2)) == {"unexpected": 1}
    assert wrongs(asked(fails=1, max_retries=1), *used_up, final(DEAD, 4)) == {"unexpected": 1}


def test_an_innocent_task_is_no_dead_letter() -> None:
    kills = [fault(DUE + at) for at in (0.2, 3.2)]
    lost = [cut_off(DUE + 0.1, 1), cut_off(DUE + 3, 3), final(DEAD, 4)]
    judgement = judged(asked(), *lost, *kills)
    assert judgement.wrong.keys() == {"unexpected"}
    assert judgement[Kind.DEAD_BY_LOSSES].count == 1


def test_at_most_once_may_be_lost_with_its_node() -> None:
    once = asked(mode="at_most_once", max_retries=0)
    for calls in ([cut_off()], [call()], []):
        assert wrongs(once, *calls, final(DEAD, 2)) == {"unexpected": 1}
        judgement = judged(once, *calls, final(DEAD, 2), fault(DUE + 0.15))
        assert judgement.wrong == {}
        assert judgement[Kind.DEAD_BY_LOSSES].count == 1
    judgement = judged(once, failed(), final(DEAD, 2))
    assert judgement.wrong == {}
    assert judgement[Kind.DEAD_EXPECTED].count == 1


def test_two_effects_are_one_too_many() -> None:
    sink = asked(mode="exactly_once")
    assert wrongs(sink, call(), effect(), final()) == {}
    assert wrongs(sink, call(), effect(), effect(), final()) == {"duplicate_effects": 1}


def test_completed_without_its_effect() -> None:
    assert wrongs(asked(mode="exactly_once"), call(), final()) == {"missing_effects": 1}
    row = asked(mode="exactly_once", way="effect")
    assert wrongs(row, call(), final()) == {"missing_effects": 1}
    assert wrongs(asked(mode="exactly_once", way="function"), call(), final()) == {}


def test_an_effect_is_committed_with_its_run() -> None:
    row = asked(mode="exactly_once", way="effect")
    # The node died when the effect was committed, and before the function could return.
    assert wrongs(row, cut_off(), effect(), final()) == {}
    calls = [cut_off(DUE + 0.1, 1), cut_off(DUE + 3, 3), fault(DUE + 0.2)]
    assert wrongs(row, *calls, effect(1), final(fence=3)) == {"stale_fence_accepted": 1}
    cancelled = [changed("interrupt", DUE), final(CANCELLED)]
    assert wrongs(row, cut_off(), *cancelled) == {}
    assert wrongs(row, cut_off(), effect(), *cancelled) == {"unexpected": 1}


def test_a_late_start_is_reported() -> None:
    judgement = judged(asked(), call(DUE + 2.1), final())
    assert (judgement.wrong, judgement[Kind.LATE].count) == ({}, 1)
    assert wrongs(asked(), call(DUE + 61), final()) == {"too_late": 1}
    assert wrongs(asked(), call(DUE + 61), final(), fault(DUE + 50)) == {"too_late": 1}
    strict = judged(asked(), call(DUE + 2.1), final(), limits=Limits(too_late=2.05))
    assert strict.wrong.keys() == {"too_late"}


@pytest.mark.parametrize(
    "innocent",
    [
        [asked(), call(DUE + 1.9), final()],
        [asked(acked_at=DUE + 70), call(DUE + 71), final()],
        [asked(acked_at=None, task_id=None), call(DUE + 71), final()],
        [asked(), call(DUE + 71), final(), fault(DUE - 15)],
        [asked(), call(DUE + 71), final(), changed("pause", DUE - 1), changed("resume", DUE + 70)],
    ],
)
def test_a_start_that_is_late_for_a_reason_is_not(innocent: Sequence[Any]) -> None:
    judgement = judged(*innocent)
    assert (judgement.wrong, judgement[Kind.LATE].count) == ({}, 0)


def test_each_sighting_is_wrong() -> None:
    sighting = Sighting(DUE, "a fence fell")
    assert wrongs(asked(), call(), final(), sighting, sighting) == {"unexpected": 2}


def test_of_many_the_first_are_shown() -> None:
    many = [replace(asked(), n=n) for n in range(50)]
    lost = judged(*many)[Kind.LOST]
    assert (lost.count, len(lost.first)) == (50, 20)
    assert lost.first[0] == (0, f"acknowledged as {ID}, and not there")


def test_the_counts_name_everything() -> None:
    counts = judged(asked(), call(), final()).counts
    assert counts["acknowledged"] == counts["calls"] == 1
    assert {str(kind) for kind in Kind} <= counts.keys()


def test_the_checker_knows_nothing_of_gnomon() -> None:
    program = (
        "import sys\n"
        "import proof.campaigns.checker\n"
        "found = sorted(m for m in sys.modules if m.split('.')[0] in ('gnomon', 'asyncpg'))\n"
        "assert not found, found\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
