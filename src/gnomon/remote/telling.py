"""Tells who listens in a remote worker what it has taken and what became of it.

The gateway counts executions and decides what follows from each: this is for the worker's own log
and its line on a terminal, and no metric.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import starmap

from gnomon.model.outcomes.outcome import OutcomeKind
from gnomon.model.outcomes.verdict import VerdictKind
from gnomon.model.tasks.lifecycle import State
from gnomon.observe.counts import Counted, EndCount, by_kind, end_count
from gnomon.observe.events import TaskBatch, TaskSettled, TasksSettled, TasksStarted, TaskStarted
from gnomon.pipe.envelope import Delivery, Report


def taken_event(deliveries: Sequence[Delivery], now: datetime) -> TasksStarted:
    """Of what was delivered at `now`."""

    def tasks() -> Iterator[TaskStarted]:
        for delivery in deliveries:
            yield TaskStarted(
                key=delivery.key,
                task_type=delivery.task_type,
                lane=delivery.lane,
                attempt=delivery.attempt,
                due_at=delivery.execute_at,
                started_at=now,
            )

    return TasksStarted(TaskBatch(tasks), TaskBatch(lambda: iter(())), Counted(lambda: ()))


def reported_event(reports: Sequence[Report]) -> TasksSettled:
    """Of what was acknowledged."""
    return TasksSettled(
        TaskBatch(lambda: map(_told, reports)), Counted(lambda: iter(_counted(reports)))
    )


def _told(report: Report) -> TaskSettled:
    delivery, outcome = report.delivery, report.outcome
    kind, state = _presumed(outcome.kind if outcome is not None else None)
    return TaskSettled(
        key=delivery.key,
        task_type=delivery.task_type,
        lane=delivery.lane,
        attempt=delivery.attempt,
        outcome=None if outcome is None else outcome.kind,
        verdict=kind,
        state=state,
        started_at=_moment(report.started_at),
        finished_at=_moment(report.finished_at),
        error=None if outcome is None else outcome.error,
        due_at=None,
        cron_job_id=None,
        origin=delivery.origin,
    )


def _counted(reports: Sequence[Report]) -> Iterator[EndCount]:
    deliveries = [report.delivery for report in reports]
    outcomes = [report.outcome for report in reports]
    kinds = [None if outcome is None else outcome.kind for outcome in outcomes]
    columns = (
        [d.key.tenant_id for d in deliveries],
        [d.task_type for d in deliveries],
        [d.lane for d in deliveries],
        [False] * len(reports),
        kinds,
        [outcome is not None and outcome.is_own_failure for outcome in outcomes],
        [_presumed(kind)[1] for kind in kinds],
    )
    spent = [report.seconds or 0.0 for report in reports]
    return starmap(end_count, by_kind(columns, spent).items())


def _presumed(kind: OutcomeKind | None) -> tuple[VerdictKind, State]:
    """What follows, as far as a worker can tell."""
    if kind is None:
        return VerdictKind.RELEASE, State.WAITING
    if kind is OutcomeKind.SUCCEEDED:
        return VerdictKind.COMPLETE, State.COMPLETED
    return VerdictKind.RETRY, State.WAITING


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
