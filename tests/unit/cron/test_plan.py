"""Which fires become runs, and which were missed."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.cron.job import CronJob, Definition, Missed, Skipped
from gnomon.cron.plan import MOST_AT_ONCE, WITHHELD, Plan, jitter, plan, withheld
from gnomon.model.targets.target import PythonTarget

NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
AHEAD = timedelta(seconds=10)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def job(next_fire_at: datetime | None = NOON, runs: int = 0, **values: Any) -> CronJob:
    """A job that fires every minute."""
    fields: dict[str, Any] = {
        "name": "job",
        "task_type": "test",
        "target": PythonTarget("nothing"),
        "cron_expression": "* * * * *",
    }
    return CronJob(
        id=UUID(int=7),
        tenant_id="default",
        definition=Definition(**(fields | values)),
        version=1,
        next_fire_at=next_fire_at,
        runs=runs,
        active_task_id=None,
        paused_at=None,
        pause_reason=None,
        created_at=NOON,
        updated_at=NOON,
        created_by=None,
    )


def planned(planned_job: CronJob, now: datetime) -> Plan:
    return plan(planned_job, now, now + AHEAD)


def fires(made: Plan) -> list[datetime]:
    return [o.fire_at for o in made.occurrences]


def test_a_fire_is_planned_ahead_of_its_time_and_no_earlier() -> None:
    assert fires(planned(job(), NOON - AHEAD)) == [NOON]
    assert fires(planned(job(), NOON - AHEAD - timedelta(seconds=1))) == []


def test_planning_goes_on_with_the_fire_after_the_last() -> None:
    made = planned(job(), NOON - timedelta(seconds=1))
    assert made.next_fire_at == NOON + minutes(1)
    assert made.missed == 0


def test_a_fire_that_is_late_but_within_its_grace_is_not_missed() -> None:
    now = NOON + timedelta(seconds=9)
    for policy in Missed:
        assert fires(planned(job(missed_run_policy=policy), now)) == [NOON], policy


def test_skip_runs_nothing_of_the_past() -> None:
    made = planned(job(missed_run_policy=Missed.SKIP), NOON + minutes(60.5))
    assert fires(made) == []
    assert made.next_fire_at == NOON + minutes(61)
    assert made.missed == 61
    assert made.last_missed == NOON + minutes(60)


def test_fire_once_runs_the_last_fire_for_all_that_were_missed() -> None:
    made = planned(job(missed_run_policy=Missed.FIRE_ONCE), NOON + minutes(60.5))
    assert fires(made) == [NOON + minutes(60)]
    assert made.missed == 60
    assert made.occurrences[0].expires_at == NOON + minutes(61)


def test_backfill_runs_the_last_of_them_up_to_its_limit() -> None:
    limited = job(missed_run_policy=Missed.BACKFILL, backfill_limit=10)
    made = planned(limited, NOON + minutes(60.5))
    assert fires(made) == [NOON + minutes(m) for m in range(51, 61)]
    assert made.missed == 51


def test_backfill_runs_nothing_older_than_its_window() -> None:
    windowed = job(missed_run_policy=Missed.BACKFILL, backfill_window_seconds=180)
    made = planned(windowed, NOON + minutes(60.5))
    assert fires(made) == [NOON + minutes(m) for m in (58, 59, 60)]


def test_backfill_without_bounds_runs_all_in_several_plans() -> None:
    unbounded = job(missed_run_policy=Missed.BACKFILL)
    now = NOON + minutes(250.5)
    seen: list[datetime] = []
    while True:
        made = planned(unbounded, now)
        assert made.missed == 0
        if not made.occurrences:
            break
        assert all(o.expires_at is None for o in made.occurrences)
        seen += fires(made)
        unbounded = msgspec.structs.replace(unbounded, next_fire_at=made.next_fire_at)
    assert seen == [NOON + minutes(m) for m in range(251)]


def test_a_plan_is_bounded() -> None:
    made = planned(job(missed_run_policy=Missed.BACKFILL), NOON + minutes(100_000))
    assert len(made.occurrences) == MOST_AT_ONCE


def test_a_long_outage_of_a_frequent_job_is_not_walked_through() -> None:
    year = job(cron_expression="* * * * * *", missed_run_policy=Missed.FIRE_ONCE)
    made = planned(year, NOON + timedelta(days=365))
    assert len(made.occurrences) <= 21  # within the grace, and ahead
    assert made.missed == 10_000  # counted no further


def test_a_run_planned_ahead_expires_when_its_policy_would_not_run_it() -> None:
    now = NOON - timedelta(seconds=5)
    expected = {
        (Missed.SKIP, None): NOON + timedelta(seconds=10),
        (Missed.FIRE_ONCE, None): NOON + minutes(1),
        (Missed.BACKFILL, 3): NOON + minutes(3),
        (Missed.BACKFILL, None): None,
    }
    for (policy, limit), expires_at in expected.items():
        made = planned(job(missed_run_policy=policy, backfill_limit=limit), now)
        assert made.occurrences[0].expires_at == expires_at, (policy, limit)


@pytest.mark.parametrize("left", [0, 1, 3])
def test_max_runs_ends_the_job(left: int) -> None:
    limited = job(
        cron_expression="* * * * * *", max_runs=5, runs=5 - left, missed_run_policy=Missed.BACKFILL
    )
    made = planned(limited, NOON)
    assert len(made.occurrences) == left
    assert made.next_fire_at is None


def test_an_end_date_ends_the_job() -> None:
    made = planned(job(end_date=NOON + timedelta(seconds=30)), NOON)
    assert fires(made) == [NOON]
    assert made.next_fire_at is None


def test_where_there_is_no_room_minutes_are_skipped_as_one() -> None:
    planned = withheld(plan(job(), NOON, NOON + minutes(2)), NOON)
    assert planned.occurrences == []
    assert planned.why is Skipped.NO_ROOM
    assert planned.last_missed == NOON + minutes(2) + WITHHELD
    assert planned.missed == 3 + WITHHELD / minutes(1)
    assert planned.next_fire_at == planned.last_missed + minutes(1)
    # What fires seldom skips no more than is planned.
    daily = withheld(plan(job(cron_expression="0 12 * * *"), NOON, NOON + AHEAD), NOON)
    assert (daily.missed, daily.last_missed) == (1, NOON)
    assert daily.next_fire_at == NOON + timedelta(days=1)
    # It was planned by rules of its time zone that have changed since.
    moved = job(NOON, cron_expression="0 13 * * *")
    late = withheld(plan(moved, NOON, NOON + AHEAD), NOON)
    assert (late.missed, late.last_missed) == (1, NOON)
    assert late.next_fire_at == NOON + timedelta(hours=1)
    nothing = plan(job(NOON + minutes(9)), NOON, NOON + AHEAD)
    assert withheld(nothing, NOON) == nothing


def test_a_paused_job_plans_nothing() -> None:
    assert planned(job(next_fire_at=None), NOON).occurrences == []


def test_jitter_is_late_within_its_window_and_always_the_same() -> None:
    jittered = job(jitter_seconds=30.0, missed_run_policy=Missed.BACKFILL)
    made = planned(jittered, NOON + minutes(50))
    offsets = [o.execute_at - o.fire_at for o in made.occurrences]
    assert all(timedelta(0) <= offset < timedelta(seconds=30) for offset in offsets)
    assert len(set(offsets)) > 40
    assert planned(jittered, NOON + minutes(50)) == made


@settings(deadline=None)
@given(
    outage=st.floats(0, 600),
    policy=st.sampled_from(Missed),
    limit=st.none() | st.integers(1, 50),
    window=st.none() | st.integers(1, 36_000),
    jitter=st.sampled_from([0.0, 5.0, 90.0]),
    grace=st.sampled_from([1.0, 10.0, 300.0]),
)
def test_what_planning_drops_is_exactly_what_would_have_expired(
    outage: float,
    policy: Missed,
    limit: int | None,
    window: int | None,
    jitter: float,
    grace: float,
) -> None:
    """A run planned before the outage and one planned after it share their fate."""
    values: dict[str, Any] = {
        "missed_run_policy": policy,
        "jitter_seconds": jitter,
        "missed_after_seconds": grace,
    }
    if policy is Missed.BACKFILL:
        values |= {"backfill_limit": limit, "backfill_window_seconds": window}
    now = NOON + minutes(outage)
    kept: list[datetime] = []
    current = job(**values)
    while current.next_fire_at is not None and current.next_fire_at <= now:
        made = planned(current, now)
        kept += [o.fire_at for o in made.occurrences if o.fire_at <= now]
        current = msgspec.structs.replace(current, next_fire_at=made.next_fire_at)
    ahead = []
    fire = NOON
    while fire <= now:
        (before,) = plan(job(next_fire_at=fire, **values), fire, fire).occurrences
        if before.expires_at is None or before.expires_at > now:
            ahead.append(fire)
        fire += minutes(1)
    assert kept == ahead


def test_jitter_is_the_same_in_every_release() -> None:
    """While nodes are updated, those of two releases plan the same job."""
    assert jitter(job(jitter_seconds=30.0), NOON) == timedelta(milliseconds=7594)


def test_what_was_to_come_next_and_is_no_fire_any_more_was_not_missed() -> None:
    """The rules of a time zone have changed since."""
    made = planned(
        job(NOON + timedelta(seconds=30), missed_run_policy=Missed.SKIP),
        NOON + timedelta(seconds=45),
    )
    assert (made.missed, made.last_missed) == (0, None)
    assert fires(made) == []
    assert made.next_fire_at == NOON + minutes(1)
