"""`/breakers`: the breakers of a tenant that are open."""

import msgspec
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, tenant_of
from gnomon.api.http.document.operation import Operation
from gnomon.api.http.requests.idempotency import answer, respond
from gnomon.api.http.requests.reading import queried
from gnomon.api.tasks.schemas import NoQuery
from gnomon.api.tasks.stats import CountView
from gnomon.usecases.admin import breakers
from gnomon.usecases.admin.breakers import BreakerState, BreakerStatus
from gnomon.usecases.checks.request_fields import Moment


class BreakerView(msgspec.Struct, kw_only=True):
    """The breaker of a host, over the nodes where it is open; null: of all that the tenant runs."""

    host: str | None
    state: BreakerState
    opened_at: Moment | None
    next_try_at: Moment
    calls: int | None  # of the minute before it opened
    failures: int | None
    error: str | None  # of the call that failed last
    nodes: list[str]
    waiting: CountView  # due tasks


class BreakerList(msgspec.Struct):
    """By host."""

    breakers: list[BreakerView]


@Operation(
    "GET",
    "/api/v1/breakers",
    name="list_breakers",
    role=Role.READ,
    summary="List the breakers that are open, why, and how many due tasks wait for each",
    query=NoQuery,
    answers={200: BreakerList},
)
async def list_breakers(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    context = context_of(request)
    found = await breakers.list_open(context.store, tenant_of(request), context.clock.now())
    return respond(answer(200, BreakerList([_view(each) for each in found])))


def _view(each: BreakerStatus) -> BreakerView:
    return BreakerView(
        host=each.host,
        state=each.state,
        opened_at=each.opened_at,
        next_try_at=each.next_try_at,
        calls=each.calls,
        failures=each.failures,
        error=each.error,
        nodes=list(each.nodes),
        waiting=CountView(each.waiting.count, each.waiting.capped),
    )
