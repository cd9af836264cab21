"""The judge of the fault tests finds what was planted, and nothing else."""

import math

from proof.cron_chaos.checker import Call, Job, Window, judge, overlapping, recovery, spans

ALL = Job("all", complete=True, created_after=99.2, created_before=99.4)
SOME = Job("some", complete=False, created_after=99.2, created_before=99.4)
UNTIL = 104.5  # fires at 100 ... 104
FIRES = range(100, 105)


def call(
    job: str, fire: float, run: str = "", at: float | None = None, what: str = "began"
) -> Call:
    return Call(what, fire + 0.1 if at is None else at, job, fire, run or f"{job}@{fire}", 1)


def seen(job: str, *without: int) -> list[Call]:
    return [call(job, fire) for fire in FIRES if fire not in without]


def test_one_run_for_each_fire_is_right() -> None:
    judgement = judge([*seen("all"), *seen("some")], [ALL, SOME], UNTIL)
    assert judgement.wrong == {}
    assert (judgement.fires, judgement.runs, judgement.calls) == (10, 10, 10)


def test_two_tries_of_a_run_are_one_run() -> None:
    judgement = judge([*seen("all"), call("all", 102, at=103.0)], [ALL], UNTIL)
    assert judgement.wrong == {}
    assert (judgement.runs, judgement.repeated) == (5, 1)


def test_a_second_run_of_a_fire_is_found() -> None:
    judgement = judge([*seen("all"), call("all", 102, "another")], [ALL], UNTIL)
    assert judgement.wrong == {"doubled": [("all", 102)]}


def test_a_second_run_is_found_after_the_end_too() -> None:
    late = [call("all", 107, "one"), call("all", 107, "other")]
    assert judge([*seen("all"), *late], [ALL], UNTIL).wrong == {"doubled": [("all", 107)]}


def test_a_fire_without_a_run_is_found() -> None:
    assert judge(seen("all", 100, 104), [ALL], UNTIL).wrong == {
        "missing": [("all", 100), ("all", 104)]
    }


def test_a_job_that_never_ran_is_found() -> None:
    assert len(judge([], [ALL], UNTIL).missing) == 5


def test_a_gap_needs_a_window() -> None:
    windows = [Window(101.0, 102.5)]
    inside = judge(seen("some", 101, 102), [SOME], UNTIL, windows)
    assert (len(inside.gaps), inside.wrong) == (2, {})
    outside = judge(seen("some", 102, 103), [SOME], UNTIL, windows)
    assert outside.wrong == {"gaps outside of windows": [("some", 103)]}


def test_the_recovery_is_that_of_the_latest_gap() -> None:
    windows = [Window(100, 101), Window(110, 112)]
    assert recovery([("some", 100), ("some", 103), ("some", 113)], windows) == 2
    assert recovery([("some", 100)], windows) == 0
    assert recovery([("some", 99)], windows) == math.inf


def test_a_window_excuses_no_job_that_makes_up() -> None:
    assert judge(seen("all", 102), [ALL], UNTIL, [Window(0, 200)]).missing == [("all", 102)]


def test_a_call_before_its_fire_is_found() -> None:
    calls = [*seen("all", 102), call("all", 102, at=101.999)]
    assert judge(calls, [ALL], UNTIL).wrong == {"early": [("all", 102)]}


def test_fires_from_before_the_job_are_found() -> None:
    calls = [*seen("all"), call("all", 99), call("stranger", 100)]
    assert judge(calls, [ALL], UNTIL).unexpected == [("all", 99), ("stranger", 100)]


def test_a_run_lasts_from_its_first_try_to_the_end_of_its_last() -> None:
    calls = [
        call("job", 100, "a", at=100.0),
        call("job", 100, "a", at=100.1, what="ended"),
        call("job", 101, "b", at=101.0),
        call("job", 100, "a", at=102.0),
        call("job", 100, "a", at=102.1, what="ended"),
    ]
    first, second = spans(calls)
    assert (first.begin, first.end) == (100.0, 102.1)
    assert (second.begin, second.end) == (101.0, math.inf)
    assert overlapping(spans(calls)) == [(first, second)]


def test_runs_that_follow_each_other_do_not_overlap() -> None:
    calls = [
        call("job", 100, "a", at=100.0),
        call("other", 100, "x", at=100.0),
        call("job", 100, "a", at=101.0, what="ended"),
        call("job", 101, "b", at=101.0),
    ]
    assert overlapping(spans(calls)) == []
