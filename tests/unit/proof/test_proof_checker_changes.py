"""The checker of campaigns holds cancels and pauses to what was answered, and to no more."""

from proof.campaigns.checker import CANCELLED, DEAD, PAUSED
from tests.unit.proof.proof_records import DUE, asked, call, changed, failed, final, wrongs


def test_a_cancelled_task_does_not_start() -> None:
    cancelled = [changed("cancel", DUE - 0.5), final(CANCELLED, 2)]
    assert wrongs(asked(), *cancelled) == {}
    assert wrongs(asked(), *cancelled, call(DUE + 0.1)) == {"unexpected": 1}
    retrying = [failed(DUE + 0.1, 1), changed("cancel", DUE + 0.3), final(CANCELLED, 2)]
    assert wrongs(asked(fails=1), *retrying) == {}


def test_a_cancelled_task_ends_cancelled() -> None:
    ran = [call(DUE + 0.1), final()]
    assert wrongs(asked(), *ran, changed("cancel", DUE + 0.15)) == {"unexpected": 1}
    for refused in (False, None):
        assert wrongs(asked(), *ran, changed("cancel", DUE + 0.15, refused)) == {}
    assert wrongs(asked(), final(0), changed("cancel", DUE - 0.5)) == {"stuck": 1}


def test_a_cancel_without_an_answer_may_have_happened() -> None:
    assert wrongs(asked(), final(CANCELLED), changed("cancel", DUE - 0.5, None)) == {}
    assert wrongs(asked(), final(CANCELLED), changed("cancel", DUE, False)) == {"unexpected": 1}


def test_an_interrupt_lets_success_win() -> None:
    interrupt = changed("interrupt", DUE + 0.15)
    assert wrongs(asked(), call(), interrupt, final()) == {}
    assert wrongs(asked(), failed(hung_up=True), interrupt, final(CANCELLED)) == {}
    assert wrongs(asked(fails=9), failed(), interrupt, final(DEAD, 2))["unexpected"] == 2


def test_an_interrupted_task_is_not_tried_again() -> None:
    interrupt = changed("interrupt", DUE + 0.05)
    about_to_begin = failed(DUE + 0.1, 1)
    assert wrongs(asked(fails=2), interrupt, about_to_begin, final(CANCELLED, 1)) == {}
    again = failed(DUE + 0.5, 3)
    history = [asked(fails=2), interrupt, about_to_begin, again, final(CANCELLED, 3)]
    assert wrongs(*history) == {"unexpected": 1}
    much_later = failed(DUE + 20, 1)
    assert wrongs(asked(fails=2), interrupt, much_later, final(CANCELLED, 1)) == {"unexpected": 1}


def test_a_paused_task_does_not_start() -> None:
    pause, resume = changed("pause", DUE - 0.5), changed("resume", DUE + 2)
    assert wrongs(asked(), pause, resume, call(DUE + 2.1), final()) == {}
    assert wrongs(asked(), pause, resume, call(DUE + 1.9), final()) == {"unexpected": 1}
    assert wrongs(asked(), pause, call(DUE + 1.9), final()) == {"unexpected": 1}
    for accepted in (False, None):
        unsure = changed("pause", DUE - 0.5, accepted)
        assert wrongs(asked(), unsure, resume, call(DUE + 1.9), final()) == {}


def test_a_paused_task_may_stay_so() -> None:
    pause, resume = changed("pause", DUE - 0.5), changed("resume", DUE + 2)
    assert wrongs(asked(), pause, final(PAUSED)) == {}
    assert wrongs(asked(), changed("pause", DUE - 0.5, None), final(PAUSED)) == {}
    assert wrongs(asked(), changed("pause", DUE - 0.5, False), final(PAUSED)) == {"stuck": 1}
    assert wrongs(asked(), pause, resume, final(PAUSED)) == {"stuck": 1}
    assert wrongs(asked(), pause, changed("resume", DUE + 2, None), final(PAUSED)) == {}
