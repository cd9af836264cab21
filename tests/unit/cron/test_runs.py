"""Runs as they are built of a job and its fires."""

from datetime import timedelta
from uuid import UUID

import msgspec
import pytest
from tests.unit.cron.a_job import NOON, a_job

from gnomon.cron.job import Overlap, RunKind
from gnomon.cron.plan import Occurrence, plan
from gnomon.cron.runs import (
    backfill_fires,
    first_run,
    manual_fire,
    planned_fires,
    run_of,
    triggered,
    with_first_reserved,
)
from gnomon.model.tasks.lifecycle import Status
from gnomon.model.tasks.priority import Lane
from gnomon.model.tasks.retry import RetryPolicy
from gnomon.model.tasks.task import TEMPLATE_FIELDS

SECOND = timedelta(seconds=1)
FIRE = Occurrence(NOON, NOON + SECOND, NOON + 60 * SECOND)
TEMPLATE = msgspec.Raw(
    b'{"at": "{{fire_time}}", "id": "{{run_id}}", "after": "{{previous_fire_time}}"}'
)


def numbered(turn: int) -> UUID:
    return UUID(int=turn)


def test_a_run_has_what_its_job_says() -> None:
    job = a_job(
        priority=Lane.HIGH,
        retry_policy=RetryPolicy(max_retries=9),
        timeout_seconds=5.0,
        tags=("a", "b"),
        queue="q",
        preemptible=True,
    )
    run = run_of(job, FIRE, UUID(int=1), NOON - SECOND)
    for name in (*TEMPLATE_FIELDS, "name"):
        assert getattr(run, name) == getattr(job.definition, name)
    assert (run.id, run.tenant_id, run.cron_job_id) == (UUID(int=1), "acme", job.id)
    assert (run.fire_at, run.execute_at, run.expires_at) == (NOON, NOON + SECOND, FIRE.expires_at)
    assert (run.created_by, run.payload) == ("ann", None)


def test_what_was_missed_is_due_at_once_and_nothing_is_due_early() -> None:
    late = NOON + 30 * SECOND
    assert run_of(a_job(), FIRE, UUID(int=1), late).due_at == late
    assert run_of(a_job(), FIRE, UUID(int=1), NOON).due_at == FIRE.execute_at


def test_the_payload_says_which_fire_it_is_of() -> None:
    job = a_job(payload_template=TEMPLATE)
    run = run_of(job, FIRE, UUID(int=1), NOON)
    assert run.payload is not None
    assert msgspec.json.decode(run.payload) == {
        "at": "2026-06-01T12:00:00Z",
        "id": str(UUID(int=1)),
        "after": "2026-06-01T11:59:00Z",
    }


@pytest.mark.parametrize("policy", Overlap)
def test_runs_ask_their_job_unless_they_may_overlap(policy: Overlap) -> None:
    job = a_job(overlap_policy=policy)
    fires = planned_fires(job, [FIRE, FIRE], NOON, numbered)
    asks = policy is not Overlap.ALLOW
    assert [fire.run.gated for fire in fires] == [asks, asks]
    assert first_run(fires) == (UUID(int=0) if asks else None)
    assert first_run([]) is None


def test_the_first_of_them_can_have_its_place_before_it_starts() -> None:
    fires = planned_fires(a_job(), [FIRE, FIRE], NOON, numbered)
    assert [fire.run.gated for fire in with_first_reserved(fires)] == [False, True]
    assert [fire.run.gated for fire in fires] == [True, True]


def test_ids_are_in_the_order_of_the_fires() -> None:
    job = a_job()
    occurrences = plan(job, NOON, NOON + timedelta(minutes=3)).occurrences
    fires = planned_fires(job, occurrences, NOON, numbered, first=500)
    assert [fire.run.id.int for fire in fires] == [500, 501, 502, 503]
    assert [fire.occurrence for fire in fires] == occurrences


def test_a_watched_run_must_start_in_its_window() -> None:
    (watched,) = planned_fires(a_job(sla_seconds=5.0), [FIRE], NOON, numbered)
    assert watched.sla_at == FIRE.execute_at + 5 * SECOND
    (unwatched,) = planned_fires(a_job(), [FIRE], NOON, numbered)
    assert unwatched.sla_at is None


def test_a_fire_by_hand_is_no_fire_of_the_schedule() -> None:
    assert manual_fire(NOON).fire_at == NOON + timedelta(microseconds=1)
    between = NOON + timedelta(microseconds=5)
    assert manual_fire(between) == Occurrence(between, between, None, RunKind.MANUAL)


def test_a_run_by_hand_is_shown_as_ready() -> None:
    (fire,) = planned_fires(a_job(), [manual_fire(NOON)], NOON, numbered)
    run = triggered(fire)
    assert (run.kind, run.status, run.task_id) == (RunKind.MANUAL, Status.READY, fire.run.id)


def test_fires_of_a_backfill_never_expire() -> None:
    assert backfill_fires([NOON]) == [Occurrence(NOON, NOON, None, RunKind.BACKFILL)]
