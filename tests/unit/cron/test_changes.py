"""The fires of a job after it was changed."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.unit.cron.a_job import NOON, a_job

from gnomon.cron.changes import (
    fires_to_backfill,
    next_fire_after_change,
    next_fire_after_pause,
    same_definition,
)
from gnomon.cron.job import CronJob, Definition
from gnomon.model.errors import InvalidSchedule

MINUTE = timedelta(minutes=1)
NOW = NOON + timedelta(seconds=90)


def changed(job: CronJob, **values: Any) -> Definition:
    return msgspec.structs.replace(job.definition, **values)


def test_a_definition_is_the_same_however_its_payload_is_written() -> None:
    one = a_job(payload_template=msgspec.Raw(b'{"a": 1, "b": 2}')).definition
    other = a_job(payload_template=msgspec.Raw(b'{"b":2,"a":1}')).definition
    assert same_definition(one, other)
    assert not same_definition(one, a_job(payload_template=msgspec.Raw(b'{"a": 1}')).definition)
    assert not same_definition(one, a_job().definition)
    assert not same_definition(one, msgspec.structs.replace(other, queue="q"))


def test_a_fire_that_is_overdue_is_kept_by_a_change_of_anything_but_the_times() -> None:
    job = a_job(next_fire_at=NOON)
    assert next_fire_after_change(job, changed(job, queue="q"), NOW, 0) == NOON
    moved = changed(job, cron_expression="*/5 * * * *")
    assert next_fire_after_change(job, moved, NOW, 0) == NOON + 5 * MINUTE


def test_a_fire_to_come_is_computed_anew() -> None:
    job = a_job(next_fire_at=NOON + 10 * MINUTE)
    assert next_fire_after_change(job, changed(job, queue="q"), NOW, 0) == NOON + 2 * MINUTE


@pytest.mark.parametrize(
    ("runs", "withdrawn", "ends"), [(3, 0, True), (3, 1, False), (2, 0, False)]
)
def test_a_job_whose_runs_are_used_up_fires_no_more(runs: int, withdrawn: int, ends: bool) -> None:
    job = a_job(runs=runs, max_runs=3, next_fire_at=None)
    assert (next_fire_after_change(job, job.definition, NOW, withdrawn) is None) is ends
    if not withdrawn:
        assert (next_fire_after_pause(job, NOW) is None) is ends


def test_what_lay_in_a_pause_does_not_fire() -> None:
    assert next_fire_after_pause(a_job(next_fire_at=NOON), NOW) == NOON + 2 * MINUTE


def test_a_backfill_has_both_ends_and_is_bounded() -> None:
    job = a_job()
    last = NOON + 2 * MINUTE
    fires = [NOON, NOON + MINUTE, last]
    assert fires_to_backfill(job, NOON, last, 3, last) == fires
    with pytest.raises(InvalidSchedule, match="more than 2 fires"):
        fires_to_backfill(job, NOON, last, 2, last)
    with pytest.raises(InvalidSchedule, match="future"):
        fires_to_backfill(job, NOON, last, 3, last - timedelta(seconds=1))
