"""`/usage`: usage of a tenant by the day, and of all tenants for operators."""

from datetime import date
from typing import Annotated

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, tenant_of
from gnomon.api.http.answers.formats import Form, form_of
from gnomon.api.http.document.operation import CSV, Operation
from gnomon.api.http.requests.idempotency import answer, respond
from gnomon.api.http.requests.reading import queried
from gnomon.store.ports.tenancy.usage import DayUsage
from gnomon.usecases.admin import usage
from gnomon.usecases.checks.request_fields import DEFAULT_LIMIT, Strict

Day = Annotated[date, msgspec.Meta(description="A day of UTC: 2026-11-01")]


class UsageQuery(Strict):
    """The days that are asked for, both included; by default the last 30. Without `format`, the
    Accept header decides."""

    first: Day | None = msgspec.field(default=None, name="from")
    last: Day | None = msgspec.field(default=None, name="to")
    format: Form | None = None


class TenantUsageQuery(Strict):
    """The days that are asked for, both included; by default the last 30."""

    first: Day | None = msgspec.field(default=None, name="from")
    last: Day | None = msgspec.field(default=None, name="to")
    limit: Annotated[int, msgspec.Meta(ge=1, le=500)] = DEFAULT_LIMIT
    cursor: str | None = None


class DayView(msgspec.Struct):
    """The usage of a day."""

    day: date
    submissions: int
    executions: int
    compute_seconds: float
    stored_bytes: int


class UsageView(msgspec.Struct):
    """The days with any usage, in order."""

    first: date = msgspec.field(name="from")
    last: date = msgspec.field(name="to")
    usage: list[DayView]


class TenantDayView(DayView, kw_only=True):
    """The usage of a tenant on a day."""

    tenant_id: str


class TenantUsageList(msgspec.Struct):
    """By tenant and day."""

    first: date = msgspec.field(name="from")
    last: date = msgspec.field(name="to")
    usage: list[TenantDayView]
    next_cursor: str | None


@Operation(
    "GET",
    "/api/v1/usage",
    name="get_usage",
    role=Role.ADMIN,
    summary="Read the usage of the tenant, by the day",
    query=UsageQuery,
    answers={200: UsageView},
    also=CSV,
)
async def get_usage(request: Request) -> ASGIResponse:
    context, asked = context_of(request), queried(request, UsageQuery)
    tenant_id = tenant_of(request)
    days, found = await usage.of_tenant(context.usage, tenant_id, asked.first, asked.last)
    if form_of(request, asked.format) is Form.CSV:
        return ASGIResponse(body=csv_of(found).encode(), media_type=CSV, status_code=200)
    views = [DayView(*msgspec.structs.astuple(day)) for day in found]
    return respond(answer(200, UsageView(*days, views)))


@Operation(
    "GET",
    "/api/v1/usage/tenants",
    name="list_tenant_usage",
    role=Role.OPERATOR,
    summary="Read the usage of each tenant, by the day",
    query=TenantUsageQuery,
    answers={200: TenantUsageList},
)
async def list_tenant_usage(request: Request) -> ASGIResponse:
    context, asked = context_of(request), queried(request, TenantUsageQuery)
    after = usage.parsed(asked.cursor)
    days, page = await usage.of_all(context.usage, asked.first, asked.last, after, asked.limit)
    views = [TenantDayView(**msgspec.structs.asdict(day)) for day in page.days]
    cursor = usage.after(page.days[-1]) if page.more else None
    return respond(answer(200, TenantUsageList(*days, views, cursor)))


def csv_of(days: list[DayUsage]) -> str:
    """A header, and a line for each day. No value needs quoting."""
    lines = [",".join(DayUsage.__struct_fields__)]
    lines += [",".join(str(value) for value in msgspec.structs.astuple(day)) for day in days]
    return "".join(f"{line}\n" for line in lines)
