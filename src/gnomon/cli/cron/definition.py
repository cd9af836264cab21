"""A recurring job as it is typed, turned into what the API takes."""

from datetime import datetime
from typing import TYPE_CHECKING

import typer

from gnomon.cli.shared import values
from gnomon.cli.shared.values import given
from gnomon.cli.tasks.definition import target
from gnomon.cli.tasks.submit import DEFAULT_TYPE
from gnomon.cron.job import Missed, Overlap
from gnomon.cron.schedule import Fold, Gap

if TYPE_CHECKING:
    from gnomon.client.client import Json


def when(cron: str | None, every: float | None, phase: str | None) -> "Json":
    """The expression, or the interval."""
    if (cron is None) == (every is None):
        raise typer.BadParameter("say when: either --cron '0 9 * * MON-FRI' or --every 15m")
    if phase is not None and every is None:
        raise typer.BadParameter("--from is where --every counts from; --cron needs none")
    return given(cron_expression=cron, interval_seconds=every, interval_from=phase)


def where(timezone: str | None, gap: Gap | None, fold: Fold | None) -> "Json":
    """The zone, and what happens when its clocks change."""
    return given(timezone=timezone, dst=given(gap=gap, fold=fold) or None)


def within(start: datetime | None, end: datetime | None, max_runs: int | None) -> "Json":
    """The first and the last moment, and how often at the most."""
    return given(
        max_runs=max_runs,
        start_date=None if start is None else values.rfc3339(start),
        end_date=None if end is None else values.rfc3339(end),
    )


def punctual(jitter: float | None, sla: float | None) -> "Json":
    """How much later than its time a run may be on purpose, and by accident."""
    return given(jitter_seconds=jitter, sla_seconds=sla)


def what(
    url: str | None,
    function: str | None,
    method: str | None,
    headers: dict[str, str],
    task_type: str | None,
    payload: str | None,
) -> "Json":
    """What a run calls, and with what."""
    if (url is None) == (function is None):
        raise typer.BadParameter("say what to call: either --url URL or --function NAME")
    return given(
        target=target(url, function, method, headers),
        task_type=task_type or function or DEFAULT_TYPE,
        payload_template=None if payload is None else values.payload_or_file(payload),
    )


def meeting(
    overlap: Overlap | None,
    missed: Missed | None,
    missed_after: float | None,
    backfill_limit: int | None,
    backfill_window: float | None,
) -> "Json":
    """What to do when runs meet, and when they are missed."""
    return given(
        overlap_policy=overlap,
        missed_run_policy=missed,
        missed_after_seconds=missed_after,
        backfill_limit=backfill_limit,
        backfill_window_seconds=backfill_window,
    )
