"""`/usage`: what a tenant used, by the day."""

from datetime import date, timedelta
from enum import StrEnum
from typing import Annotated

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, header_of, tenant_of
from gnomon.api.http.idempotency import answer, respond
from gnomon.api.http.operation import CSV, Operation
from gnomon.api.http.reading import queried
from gnomon.model.errors import InvalidTask
from gnomon.store.ports.usage import KEPT_DAYS, DayUsage
from gnomon.usecases.fields import Strict

DEFAULT_DAYS = 30

Day = Annotated[date, msgspec.Meta(description="A day of UTC: 2026-11-01")]


class Form(StrEnum):
    """How an answer is written."""

    JSON = "json"
    CSV = "csv"


class UsageQuery(Strict):
    """The days that are asked for, both included; by default the last 30. Without `format`, the
    Accept header decides."""

    first: Day | None = msgspec.field(default=None, name="from")
    last: Day | None = msgspec.field(default=None, name="to")
    format: Form | None = None


class DayView(msgspec.Struct):
    """What was used on a day."""

    day: date
    submissions: int
    executions: int
    compute_seconds: float
    stored_bytes: int


class UsageView(msgspec.Struct):
    """The days on which anything was used, in order."""

    first: date = msgspec.field(name="from")
    last: date = msgspec.field(name="to")
    usage: list[DayView]


@Operation(
    "GET",
    "/api/v1/usage",
    name="get_usage",
    role=Role.ADMIN,
    summary="See what was used, by the day",
    query=UsageQuery,
    answers={200: UsageView},
    also=CSV,
)
async def get_usage(request: Request) -> ASGIResponse:
    context = context_of(request)
    asked = queried(request, UsageQuery)
    first, last = _range(asked, await context.usage.today())
    found = await context.usage.days(tenant_of(request), first, last)
    if _form(request, asked) is Form.CSV:
        return ASGIResponse(body=csv_of(found).encode(), media_type=CSV, status_code=200)
    days = [DayView(*msgspec.structs.astuple(day)) for day in found]
    return respond(answer(200, UsageView(first, last, days)))


def csv_of(days: list[DayUsage]) -> str:
    """A header, and a line for each day. No value needs quoting."""
    lines = [",".join(DayUsage.__struct_fields__)]
    lines += [",".join(str(value) for value in msgspec.structs.astuple(day)) for day in days]
    return "".join(f"{line}\n" for line in lines)


def _range(asked: UsageQuery, today: date) -> tuple[date, date]:
    last = asked.last or today
    if last < date.min + timedelta(days=KEPT_DAYS):
        raise InvalidTask("is before any day that is kept", "/to")
    first = asked.first or last - timedelta(days=DEFAULT_DAYS - 1)
    if last < first:
        raise InvalidTask("must not be earlier than from", "/to")
    if (last - first).days >= KEPT_DAYS:
        raise InvalidTask(f"must be less than {KEPT_DAYS} days before to", "/from")
    return first, last


def _form(request: Request, asked: UsageQuery) -> Form:
    if asked.format is not None:
        return asked.format
    accepted = header_of(request, b"accept") or ""
    kinds = [kind.partition(";")[0].strip().lower() for kind in accepted.split(",")]
    return Form.CSV if CSV in kinds and "application/json" not in kinds else Form.JSON
