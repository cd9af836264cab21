"""The overlap rules about whole batches of due runs, and about queued ones."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cron.a_job import NOON, a_job

from gnomon.cron.job import Missed, Overlap, RunKind, Skipped
from gnomon.cron.overlap import (
    Active,
    DueRun,
    JobRuns,
    QueuedRun,
    StopActive,
    makes_up,
    rule,
    stop_active,
    superseded,
    turns,
)
from gnomon.model.tasks.lifecycle import State
from gnomon.model.tasks.task import TaskKey

HOUR = timedelta(hours=1)


def key(number: int) -> TaskKey:
    return TaskKey("acme", UUID(int=number))


def runs_of(
    number: int = 7,
    policy: Overlap = Overlap.SKIP,
    active: Active | None = None,
    *,
    queued: bool = False,
    missed: Missed = Missed.FIRE_ONCE,
) -> JobRuns:
    job = a_job(number, overlap_policy=policy, missed_run_policy=missed)
    return JobRuns(job, active, queued, NOON)


def due(
    number: int, job: int = 7, kind: RunKind = RunKind.SCHEDULED, late: float = 0, **values: bool
) -> DueRun:
    at = NOON - timedelta(seconds=late)
    return DueRun(key(number), key(job), at, at, kind, values.get("expired", False), NOON)


RUNNING = Active(UUID(int=900), State.RUNNING, 1, NOON)
RETRYING = Active(UUID(int=900), State.WAITING, 1, NOON + HOUR)
RESERVED = Active(UUID(int=900), State.WAITING, 0, NOON + HOUR)
ENDED = Active(UUID(int=900), State.DEAD, 3, NOON)

actives = st.sampled_from([None, RUNNING, RETRYING, RESERVED, ENDED])
jobs_of_all_kinds = st.builds(
    lambda policy, active, queued, missed: (policy, active, queued, missed),
    st.sampled_from(Overlap),
    actives,
    st.booleans(),
    st.sampled_from(Missed),
)
due_runs = st.lists(
    st.tuples(
        st.integers(0, 3),  # job; the last one is gone
        st.sampled_from(RunKind),
        st.sampled_from([0.0, 5.0, 60.0]),
        st.booleans(),
    ),
    max_size=12,
)


@given(st.lists(jobs_of_all_kinds, min_size=3, max_size=3), due_runs)
def test_every_run_gets_one_answer_that_its_job_can_stand_by(
    standing: Sequence[tuple[Overlap, Active | None, bool, Missed]],
    asked: Sequence[tuple[int, RunKind, float, bool]],
) -> None:
    jobs = {
        key(number): runs_of(number, policy, active, queued=queued, missed=missed)
        for number, (policy, active, queued, missed) in enumerate(standing)
    }
    runs = [
        due(100 + number, job, kind, late, expired=expired)
        for number, (job, kind, late, expired) in enumerate(asked)
    ]
    before = dict(jobs)
    ruling = rule(runs, jobs)
    assert jobs == before

    answered = [t.run for t in ruling.start] + [s.run for s in ruling.skip] + ruling.queue
    assert sorted(answered) == sorted(run.key for run in runs)

    by_key = {run.key: run for run in runs}
    started = Counter(turn.job for turn in ruling.start if turn.job is not None)
    for job_key, number in started.items():
        job = jobs[job_key]
        if job.job.definition.overlap_policy is not Overlap.ALLOW:
            assert number == 1
            assert not job.busy
    for run in runs:
        if run.expired or run.job not in jobs:
            assert (run.key, None) in ruling.start
    for skip in ruling.skip:
        job = jobs[by_key[skip.run].job]
        assert job.job.definition.overlap_policy is Overlap.SKIP
        assert not makes_up(by_key[skip.run], job.job)
    for job in ruling.replace:
        assert job.job.definition.overlap_policy is Overlap.CANCEL_RUNNING


def test_runs_take_their_turns_in_the_order_of_their_times() -> None:
    ruling = rule([due(1, late=1), due(3, late=5), due(2, late=5)], {key(7): runs_of()})
    assert ruling.start == [(key(2), key(7))]
    assert [skip.run for skip in ruling.skip] == [key(3), key(1)]
    assert {skip.reason for skip in ruling.skip} == {
        f"skipped: the run before it had not ended (task {UUID(int=2)})"
    }


def test_one_that_is_only_reserved_lets_others_go_first() -> None:
    assert rule([due(1)], {key(7): runs_of(active=RESERVED)}).start == [(key(1), key(7))]
    held = runs_of(active=RESERVED).with_reservation_due()
    assert rule([due(1)], {key(7): held}).start == []
    assert (runs_of(active=RESERVED).reserved, held.reserved) == (RESERVED.task_id, None)


def test_one_that_was_paused_before_it_started_is_only_reserved() -> None:
    paused = runs_of(active=Active(RESERVED.task_id, State.PAUSED, 0, NOON))
    assert (paused.busy, paused.reserved) == (False, RESERVED.task_id)
    held = paused.with_reservation_due()
    assert (held.busy, held.reserved) == (True, None)


@pytest.mark.parametrize("policy", Overlap)
def test_a_run_whose_place_was_kept_for_it_does_not_overlap_with_itself(policy: Overlap) -> None:
    """A run before it has asked, and was not started: so it must ask as well."""
    own = Active(key(1).id, State.WAITING, 0, NOON - timedelta(seconds=1))
    job = runs_of(policy=policy, active=own)
    assert job.busy
    assert rule([due(1)], {key(7): job}).start == [(key(1), key(7))]


def test_a_run_behind_queued_ones_is_queued_or_skipped_with_them() -> None:
    queued = {key(7): runs_of(policy=Overlap.QUEUE, queued=True)}
    assert rule([due(1)], queued).queue == [key(1)]
    skipping = {key(7): runs_of(policy=Overlap.SKIP, queued=True)}
    (skip,) = rule([due(1)], skipping).skip
    assert (skip.skipped, skip.reason) == (Skipped.OVERLAP, "skipped: runs before it are queued")


def test_a_replacing_run_is_queued_and_the_active_one_is_to_end() -> None:
    job = runs_of(policy=Overlap.CANCEL_RUNNING, active=RUNNING)
    ruling = rule([due(1)], {key(7): job})
    assert (ruling.queue, ruling.replace) == ([key(1)], [job])


@pytest.mark.parametrize(
    ("kind", "late", "policy", "expected"),
    [
        (RunKind.BACKFILL, 0, Missed.SKIP, True),
        (RunKind.SCHEDULED, 11, Missed.BACKFILL, True),
        (RunKind.SCHEDULED, 10, Missed.BACKFILL, False),  # late, and not missed
        (RunKind.SCHEDULED, 11, Missed.FIRE_ONCE, False),
        (RunKind.MANUAL, 0, Missed.BACKFILL, False),
    ],
)
def test_which_runs_make_up_for_missed_ones(
    kind: RunKind, late: float, policy: Missed, expected: bool
) -> None:
    job = a_job(missed_run_policy=policy, missed_after_seconds=10.0)
    assert makes_up(due(1, kind=kind, late=late), job) is expected


def test_a_replacing_run_takes_the_place_of_queued_ones_but_not_of_a_backfill() -> None:
    queued = [
        QueuedRun(key(1), key(7), RunKind.SCHEDULED),
        QueuedRun(key(2), key(7), RunKind.BACKFILL),
        QueuedRun(key(3), key(7), None),
    ]
    assert [(s.run, s.skipped) for s in superseded(queued)] == [
        (key(1), Skipped.SUPERSEDED),
        (key(3), Skipped.SUPERSEDED),
    ]


ASKED = Active(UUID(int=900), State.RUNNING, 1, NOON, cancel_requested=True)


@pytest.mark.parametrize(
    ("policy", "active", "how"),
    [
        (Overlap.CANCEL_RUNNING, RUNNING, StopActive.INTERRUPT),
        (Overlap.CANCEL_RUNNING, ASKED, None),  # once is enough
        (Overlap.CANCEL_RUNNING, RETRYING, StopActive.END),
        (Overlap.CANCEL_RUNNING, None, None),
        (Overlap.QUEUE, RUNNING, None),
        (Overlap.SKIP, RUNNING, None),
    ],
)
def test_who_ends_the_active_run(
    policy: Overlap, active: Active | None, how: StopActive | None
) -> None:
    assert stop_active(runs_of(policy=policy, active=active)) is how


@given(st.lists(st.tuples(st.integers(0, 3), actives), max_size=8))
def test_the_first_queued_run_of_each_job_starts_where_none_is_active(
    queued: Sequence[tuple[int, Active | None]],
) -> None:
    jobs = {key(n): runs_of(n, active=active, queued=True) for n, active in queued}
    waiting = [QueuedRun(key(100 + i), key(n), None) for i, (n, _) in enumerate(queued)]
    now_due, held = turns(waiting, jobs)
    assert {turn.job for turn in now_due} | {job.key for job in held} == set(jobs)
    for turn in now_due:
        assert turn.job is not None
        assert not jobs[turn.job].running
        assert turn.run == next(run.key for run in waiting if run.job == turn.job)
    assert all(job.running for job in held)
