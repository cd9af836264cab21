"""`/activity`: what became of tasks over time; and what is scheduled."""

from datetime import timedelta
from typing import Annotated, Any

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, tenant_of
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.idempotency import answer, respond
from gnomon.api.http.requests.reading import queried
from gnomon.model.insight.activity import Counts, percentile
from gnomon.model.tasks.priority import Lane, Priority
from gnomon.store.ports.insight.activity import ActivityPoint
from gnomon.store.tenant_cache import TenantCache
from gnomon.usecases.checks.request_fields import Moment, Strict, TaskType
from gnomon.usecases.tasks import activity
from gnomon.usecases.tasks.activity import Activity, ActivityOfAll, ActivityQuestion

Step = Annotated[
    int,
    msgspec.Meta(
        ge=60, le=31 * 86_400, description="Seconds: whole minutes, or whole hours from 3600 on"
    ),
]


class TenantActivityQuery(Strict):
    """The time that is asked for; by default the last hour. Without `step`, one that gives 300
    points at the most, or 100 of each tenant."""

    first: Moment | None = msgspec.field(default=None, name="from")
    last: Moment | None = msgspec.field(default=None, name="to")
    step: Step | None = None
    priority: Priority | None = None

    def question(self) -> ActivityQuestion:
        step = None if self.step is None else timedelta(seconds=self.step)
        lane = None if self.priority is None else Lane[self.priority]
        return ActivityQuestion(self.first, self.last, step, lane)


class ActivityQuery(TenantActivityQuery):
    """The same, of one task type, if it is named."""

    task_type: TaskType | None = None


class DelayView(msgspec.Struct):
    """How late starts were, in seconds: half of them, 95 and 99 in a hundred at the most. Estimated
    from buckets; null: nothing started."""

    p50: float | None
    p95: float | None
    p99: float | None


class ActivitySums(msgspec.Struct, kw_only=True):
    """`started`, `succeeded` and `failed` are executions, `dead` is tasks that became dead letters,
    and `run_seconds` is what executions took that have ended."""

    submitted: int
    started: int
    succeeded: int
    failed: int
    dead: int
    run_seconds: float
    start_delay: DelayView


class ActivityStep(ActivitySums, kw_only=True):
    """One step."""

    at: Moment


class ActivityOfType(ActivitySums, kw_only=True):
    """One task type; null: all that are not named."""

    task_type: str | None


class ActivityOfTenant(ActivitySums, kw_only=True):
    """One tenant; null: all that are not named."""

    tenant_id: str | None
    weight: float | None  # of its share; null where it is not known
    points: list[ActivityStep]


class ActivityView(msgspec.Struct, kw_only=True):
    """All steps in order, all of them together, and the busiest task types of that time."""

    first: Moment = msgspec.field(name="from")
    last: Moment = msgspec.field(name="to")
    step: int
    total: ActivitySums
    points: list[ActivityStep]
    task_types: list[ActivityOfType]


class TenantActivityView(msgspec.Struct, kw_only=True):
    """The same of all tenants together, and of those that ran for longest."""

    first: Moment = msgspec.field(name="from")
    last: Moment = msgspec.field(name="to")
    step: int
    total: ActivitySums
    points: list[ActivityStep]
    tenants: list[ActivityOfTenant]


class UpcomingHourView(msgspec.Struct):
    """Tasks that are due within an hour, from now on. `capped`: some were not counted, and
    `estimate` takes them to come as those before them."""

    at: Moment
    count: int
    capped: bool
    estimate: int


class UpcomingView(msgspec.Struct):
    """24 hours, from the present one on."""

    hours: list[UpcomingHourView]


@Operation(
    "GET",
    "/api/v1/activity",
    name="get_activity",
    role=Role.READ,
    summary="Read what was submitted and started, and how it ended, over time",
    query=ActivityQuery,
    answers={200: ActivityView},
)
async def get_activity(request: Request) -> ASGIResponse:
    context, asked = context_of(request), queried(request, ActivityQuery)
    found = await activity.of_tenant(
        context.activity,
        tenant_of(request),
        asked.question(),
        context.clock.now(),
        asked.task_type,
    )
    return respond(answer(200, _view(found)))


@Operation(
    "GET",
    "/api/v1/activity/tenants",
    name="get_tenant_activity",
    role=Role.OPERATOR,
    summary="Read the same of all tenants, and of those that ran for longest",
    query=TenantActivityQuery,
    answers={200: TenantActivityView},
)
async def get_tenant_activity(request: Request) -> ASGIResponse:
    context, asked = context_of(request), queried(request, TenantActivityQuery)
    found = await activity.of_all(context.activity, asked.question(), context.clock.now())
    return respond(answer(200, _view_of_all(found, context.directory)))


@Operation(
    "GET",
    "/api/v1/tasks/upcoming",
    name="get_upcoming_tasks",
    role=Role.READ,
    summary="Count what is scheduled for the next 24 hours, by the hour",
    answers={200: UpcomingView},
)
async def get_upcoming_tasks(request: Request) -> ASGIResponse:
    hours = await context_of(request).activity.upcoming(tenant_of(request))
    views = [UpcomingHourView(h.starts_at, h.count, h.capped, h.estimate) for h in hours]
    return respond(answer(200, UpcomingView(views)))


def _view(found: Activity) -> ActivityView:
    return ActivityView(
        first=found.within.first,
        last=found.within.last,
        step=round(found.within.step.total_seconds()),
        total=ActivitySums(**_sums(found.total)),
        points=_steps(found.points),
        task_types=[
            ActivityOfType(task_type=each.task_type, **_sums(each.counts)) for each in found.types
        ],
    )


def _view_of_all(found: ActivityOfAll, directory: TenantCache) -> TenantActivityView:
    def weight(tenant_id: str | None) -> float | None:
        known = tenant_id is not None and directory.knows(tenant_id)
        return directory.weight(tenant_id) if tenant_id is not None and known else None

    return TenantActivityView(
        first=found.within.first,
        last=found.within.last,
        step=round(found.within.step.total_seconds()),
        total=ActivitySums(**_sums(found.total)),
        points=_steps(found.points),
        tenants=[
            ActivityOfTenant(
                tenant_id=each.tenant_id,
                weight=weight(each.tenant_id),
                points=_steps(each.points),
                **_sums(each.total),
            )
            for each in found.tenants
        ],
    )


def _steps(points: list[ActivityPoint]) -> list[ActivityStep]:
    return [ActivityStep(at=point.starts_at, **_sums(point.counts)) for point in points]


def _sums(counts: Counts) -> dict[str, Any]:
    p50, p95, p99 = (percentile(counts.delays, part) for part in (0.5, 0.95, 0.99))
    return {
        "submitted": counts.submitted,
        "started": counts.started,
        "succeeded": counts.succeeded,
        "failed": counts.failed,
        "dead": counts.dead,
        "run_seconds": round(counts.seconds, 6),
        "start_delay": DelayView(p50, p95, p99),
    }
