"""`/service-levels`: how many tasks kept their service levels, by the week."""

from datetime import date
from typing import Annotated
from uuid import UUID

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, tenant_of
from gnomon.api.http.answers.formats import Form, form_of
from gnomon.api.http.document.operation import CSV, Operation
from gnomon.api.http.requests.idempotency import answer, respond
from gnomon.api.http.requests.reading import queried
from gnomon.model.csv_lines import csv_of
from gnomon.store.ports.insight.levels import LevelWeek
from gnomon.usecases.checks.request_fields import Strict, TaskType
from gnomon.usecases.tasks import service_levels
from gnomon.usecases.tasks.service_levels import DEFAULT_WEEKS, MOST_WEEKS, share

Weeks = Annotated[
    int, msgspec.Meta(ge=1, le=MOST_WEEKS, description="So many, with the present one")
]
_COLUMNS = (
    "week", "task_type", "cron_job_id", "cron_job", "start_kept", "start_missed", "start_share",
    "run_kept", "run_missed", "run_share",
)  # fmt: skip


class LevelQuery(Strict):
    """Weeks begin on Monday, UTC. Without `format`, the Accept header decides."""

    weeks: Weeks = DEFAULT_WEEKS
    task_type: TaskType | None = None
    cron_job_id: UUID | None = None
    format: Form | None = None


class LevelView(msgspec.Struct):
    """Tasks that kept a level, and that missed it; `share` is the part that kept it, null where
    none was judged."""

    kept: int
    missed: int
    share: float | None


class LevelWeekView(msgspec.Struct, kw_only=True):
    """The tasks of a type, and of a cron job if they were its runs. `task_type` is null for further
    types, which are added up together."""

    week: date
    task_type: str | None
    cron_job_id: UUID | None
    cron_job: str | None
    start: LevelView
    run: LevelView


class LevelReportView(msgspec.Struct):
    """The newest week first. `truncated`: there is more than one answer holds."""

    first: date = msgspec.field(name="from")
    last: date = msgspec.field(name="to")
    service_levels: list[LevelWeekView]
    truncated: bool


@Operation(
    "GET",
    "/api/v1/service-levels",
    name="get_service_levels",
    role=Role.READ,
    summary="Read how many tasks kept their service levels, by the week",
    query=LevelQuery,
    answers={200: LevelReportView},
    also=CSV,
)
async def get_service_levels(request: Request) -> ASGIResponse:
    context, asked = context_of(request), queried(request, LevelQuery)
    found = await service_levels.report(
        context.levels, tenant_of(request), asked.weeks, asked.task_type, asked.cron_job_id
    )
    if form_of(request, asked.format) is Form.CSV:
        text = csv_of(_COLUMNS, map(_line, found.rows))
        return ASGIResponse(body=text.encode(), media_type=CSV, status_code=200)
    views = [_view(row) for row in found.rows]
    return respond(answer(200, LevelReportView(found.first, found.last, views, found.truncated)))


def _view(row: LevelWeek) -> LevelWeekView:
    counts = row.counts
    return LevelWeekView(
        week=row.week,
        task_type=row.task_type or None,
        cron_job_id=row.cron_job_id,
        cron_job=row.cron_job,
        start=_level(counts.start_kept, counts.start_missed),
        run=_level(counts.run_kept, counts.run_missed),
    )


def _level(kept: int, missed: int) -> LevelView:
    return LevelView(kept, missed, share(kept, missed))


def _line(row: LevelWeek) -> tuple[object, ...]:
    view = _view(row)
    start, run = msgspec.structs.astuple(view.start), msgspec.structs.astuple(view.run)
    return (row.week, view.task_type, row.cron_job_id, row.cron_job, *start, *run)
